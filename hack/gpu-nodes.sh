#!/usr/bin/env bash
# Makes every node of the running cluster (hack/cluster.sh) a GPU host with the image on it: the state before an
# administrator installs the chart.
#
#   hack/gpu-nodes.sh [--mode hostManaged|driverManaged]
#
# hostManaged, the default: each node runs nvidia-imex. driverManaged: each node's driver root has the IMEX
# programs (the stand-ins of hack/nvml-mock/imex), and nothing runs them.
#
# The driver is the mock, see hack/mock-node.sh.
#
# IMEX_CLUSTER_ARCH      arm64 or amd64: the architecture of the image and the mock driver (this
#                        machine's); for another one, an emulator must be registered, as by
#                        hack/demo.sh --arch
# IMEX_CLUSTER_IMAGE     an archive of hack/image.sh, such as a release's; by default, makes a dev build
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
mode=hostManaged
if [ "${1-}" = --mode ]; then mode=${2-} && shift $(($# < 2 ? $# : 2)); fi
if [ $# != 0 ] || [[ $mode != hostManaged && $mode != driverManaged ]]; then
    die "usage: hack/gpu-nodes.sh [--mode hostManaged|driverManaged]"
fi

cluster=hack/cluster.sh
# shellcheck source=hack/machine.sh
. "$root/hack/machine.sh"
use_architecture "${IMEX_CLUSTER_ARCH:-$(native_architecture)}"
image=${IMEX_CLUSTER_IMAGE:-out/imex-dra-image.tar}
[ -z "${IMEX_CLUSTER_IMAGE-}" ] || [ -r "$image" ] || die "IMEX_CLUSTER_IMAGE is '$image', which is not a readable file"

need_tools cargo cc
nodes=$($cluster kubectl get nodes -o name | sed 's,^node/node,,')
say "building the mock NVML and the image"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
dev_cargo --quiet --locked -p nvml-mock -p imex-mock
programs=()
if [ "$mode" = driverManaged ]; then
    programs=(--imex-programs "$(programs_dir)")
    if ! is_native; then
        make_sysroot "$scratch/sysroot"
        programs+=(--sysroot "$scratch/sysroot")
    fi
fi
[ "${IMEX_CLUSTER_IMAGE-}" ] || hack/image.sh --arch "$architecture" --profile dev --out "$image"

for node in $nodes; do
    say "node$node: laying out a mock driver"
    hack/mock-node.sh "$node" "${programs[@]}" >/dev/null
    $cluster kubectl label --overwrite "node/node$node" nvidia.com/gpu.present=true >/dev/null
done

say "loading the image on every node"
if is_native; then $cluster load "$image"; else $cluster load "$image" "$architecture"; fi
