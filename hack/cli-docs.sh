#!/usr/bin/env bash
# Writes cdi-gen's man pages and shell completions.
#
#   hack/cli-docs.sh [DIR]   into DIR (target/cli-docs)
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=${1:-$target_dir/cli-docs}

need_tools cargo cc
cargo run --quiet --locked --manifest-path "$root/Cargo.toml" -p cli-docs -- "$dir"
say "man pages in $dir/man, completions in $dir/completions"
