#!/usr/bin/env bash
# Builds nvidia-cdi-hook as one static program for a machine, and prints its path.
#
# usage: hack/hook.sh [--arch arm64|amd64]
#
# It is linked with musl: it needs no library of the host and none of the container.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/machine.sh
. "$root/hack/machine.sh"

arch=$(native_architecture)
if [ "${1-}" = --arch ]; then arch=${2-} && shift $(($# < 2 ? $# : 2)); fi
[ $# = 0 ] || die "unknown argument $1; usage: hack/hook.sh [--arch arm64|amd64]"
use_architecture "$arch"
target=$machine-unknown-linux-musl
need_tools readelf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

get_cross_tools
export RUSTFLAGS="--remap-path-prefix=$root=/imex-dra --remap-path-prefix=$target_dir=/imex-dra/target --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
with_zig cargo zigbuild --quiet --release --locked --target "$target" -p nvidia-cdi-hook >&2 ||
    die "the program did not build; cargo's message is above"
program=$target_dir/$target/release/nvidia-cdi-hook
check_elf "$program"
! readelf -lW "$program" | grep -q INTERP || die "$program is not linked statically"
echo "$program"
