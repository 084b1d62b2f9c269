#!/usr/bin/env bash
# Compares the files that nvidia-driver-files finds with those of NVIDIA's container toolkit, on the mock's driver root
# and on Debian's drivers 535 and 550, and prints the time that both take.
#
# usage: hack/driver-files.sh [--arch amd64|arm64]
#
# --arch: the architecture of Debian's drivers; without it, that of this machine.
#
# Needs Go and a C compiler, and once the network: 230 MB of packages, unpacked 1.3 GB, which stay in $IMEX_CACHE. As root it also
# times nvidia-ctk, which wants device nodes.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

arch=$(dpkg --print-architecture)
[ "${1-}" != --arch ] || arch=${2-}
need_tools go cc cargo
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cargo build --quiet --locked -p nvml-mock
hack/mock-driver.sh "$scratch/mock" >/dev/null
roots=("$scratch/mock=580.82.07")
for driver in 535 550; do
    for links in '' --links; do
        # shellcheck disable=SC2086 # no argument if empty
        path=$(hack/debian-driver.sh $driver --arch "$arch" $links)
        version=$(find "$path/usr/lib" -name 'libcuda.so.*.*' -printf '%f\n' -quit)
        roots+=("$path=${version#libcuda.so.}")
    done
done

IMEX_REQUIRE_GO=1 IMEX_DRIVER_ROOTS=$(printf '%s\n' "${roots[@]}") \
    cargo test --quiet --locked --release -p nvidia-driver-files --test oracle -- --ignored

# median COMMAND ARG...: prints the milliseconds of the 11th fastest of 21 runs, which include starting it.
median() {
    local start end
    "$@" >/dev/null 2>&1 || { echo fails && return; }
    for _ in $(seq 21); do
        start=$(date +%s%N)
        "$@" >/dev/null 2>&1
        end=$(date +%s%N)
        echo $((end - start))
    done | sort -n | sed -n 11p | awk '{ printf "%.1f ms", $1 / 1e6 }'
}

[ "$(id -u)" = 0 ] || exit 0
cargo build --quiet --locked --release -p nvidia-driver-files --example driver-files
(cd cdi/driver-files/tests/oracle && CGO_CFLAGS=-w go build -buildvcs=false -o "$scratch/nvidia-ctk" \
    github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk)
mkdir "$scratch/dev"
mknod "$scratch/dev/nvidiactl" c 195 255
for entry in "${roots[@]}"; do
    path=${entry%=*}
    echo "$path: driver-files $(median "$target_dir/release/examples/driver-files" "$path" "${entry##*=}")," \
        "nvidia-ctk $(median "$scratch/nvidia-ctk" cdi generate --mode=management --driver-root="$path" --dev-root="$scratch")"
done
