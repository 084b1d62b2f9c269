#!/usr/bin/env bash
# Runs a benchmark (hack/bench) in release and prints its table in Markdown.
#
#   hack/bench.sh checkpoint|cdi|kubelet [--rounds N] [--dir DIR]
#
# DIR is on a disk (target/ of the repository); the program refuses tmpfs. What
# is also measured in memory is in /dev/shm.
# Run it on a quiet machine: times are those of the hour, the ratio to the
# floor, which runs beside each call, is what counts.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

# Before the build, which takes minutes.
case ${1-} in
    checkpoint | cdi | kubelet) ;;
    *) die "no benchmark '${1-}'; usage: hack/bench.sh checkpoint|cdi|kubelet [--rounds N] [--dir DIR]" ;;
esac
need_tools cargo cc
# cdi-gen is one of the subjects, and so is the example driver of dra-kubelet.
cargo build --quiet --locked --release -p bench -p cdi-gen
cargo build --quiet --locked --release -p dra-kubelet --example echo
exec "$target_dir/release/bench" "$@"
