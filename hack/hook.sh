#!/usr/bin/env bash
# Builds nvidia-cdi-hook as one static program for a machine, and prints its path.
#
# usage: hack/hook.sh [--arch arm64|amd64] [--profile dev|release]
#
# It is linked with musl: it needs no library of the host and none of the container.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/machine.sh
. "$root/hack/machine.sh"

usage="usage: hack/hook.sh [--arch arm64|amd64] [--profile dev|release]"
arch=$(native_architecture)
profile=release
while [ $# -gt 1 ]; do
    case $1 in
        --arch) arch=$2 ;;
        --profile) profile=$2 ;;
        *) break ;;
    esac
    shift 2
done
[ $# = 0 ] || die "unknown argument $1; $usage"
use_architecture "$arch"
target=$machine-unknown-linux-musl
need_tools readelf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cd "$root"
case $profile in
    release)
        get_cross_tools
        get_cargo_tool cargo-auditable "$cargo_auditable_version"
        export RUSTFLAGS="--remap-path-prefix=$root=/imex-dra --remap-path-prefix=$target_dir=/imex-dra/target --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
        cargo=(with_zig cargo auditable zigbuild --release)
        ;;
    dev)
        # For this machine, the system's linker is enough.
        if is_native; then
            need_target
            cargo=(cargo build)
        else
            get_cross_tools
            cargo=(with_zig cargo zigbuild)
        fi
        ;;
    *) die "--profile is dev or release, not '$profile'; $usage" ;;
esac
"${cargo[@]}" --quiet --locked --target "$target" -p nvidia-cdi-hook >&2 ||
    die "the program did not build; cargo's message is above"
program=$target_dir/$target/${profile/dev/debug}/nvidia-cdi-hook
check_elf "$program"
! readelf -lW "$program" | grep -q INTERP || die "$program is not linked statically"
echo "$program"
