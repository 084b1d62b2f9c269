#!/usr/bin/env bash
# Makes one node of the running cluster a GPU host with the mock driver
# (hack/cluster/gpu-host.sh). The driver root is where a driver container has it on
# real nodes.
#
#   hack/mock-node.sh K [OPTION]...    options as in hack/mock-driver.sh
#
# IMEX_CLUSTER_ARCH      as for hack/gpu-nodes.sh
#
# All nodes are in one clique. Each has another channel major, so that a hard-coded
# one fails. They are in the kernel's dynamic range, at the end that it assigns last.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

node=${1-}
[[ $node =~ ^[1-9][0-9]*$ ]] || die "no node '$node'; usage: hack/mock-node.sh K [OPTION]..."
shift
# shellcheck source=hack/machine.sh
. "$root/hack/machine.sh"
use_architecture "${IMEX_CLUSTER_ARCH:-$(native_architecture)}"
"$root/hack/cluster.sh" exec --node "$node" "$root/hack/cluster/gpu-host.sh" /run/nvidia/driver \
    --arch "$architecture" --library "$(programs_dir)/libnvml_mock.so" \
    --clique 8f4b8d52-3a1e-4c07-9d2f-6b1f0c9a7e11.7 --major $((383 + node)) "$@"
