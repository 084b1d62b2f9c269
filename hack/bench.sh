#!/usr/bin/env bash
# Runs a benchmark (hack/bench) in release and prints its table in Markdown.
#
#   hack/bench.sh checkpoint|cdi|kubelet [--rounds N] [--dir DIR]
#   hack/bench.sh controller [--sizes N,N...] [--at-once N] [--controller PROGRAM]
#   hack/bench.sh modes [--pairs N]
#   hack/bench.sh cliques [--sizes N,N...]
#   hack/bench.sh node [--rounds N] [--pairs N] [--bursts N] [--guard N] [--plugin PROGRAM]
#   hack/bench.sh gpus [--rounds N] [--blocks N] [--idle SECONDS] [--plugin PROGRAM] [--other PROGRAM] [--pause MS]
#
# DIR must be on a disk, not tmpfs (default: target/ of the repository). Measurements
# in memory use /dev/shm.
# controller, node and gpus start a cluster (hack/cluster.sh, as root) without the chart
# and take it down. controller takes half an hour, with --sizes 60,200 three minutes;
# node half an hour, with --pairs 5 --bursts 1 --guard 1 four minutes; gpus ten minutes.
# modes starts two clusters with the chart and takes ten minutes.
# gpus --other measures another GPU plugin, too: PROGRAM gets the options of ours. With
# --pause 500, a limit of its rate of requests does not affect the times of its calls.
# Run it on a quiet machine. Absolute times vary from hour to hour; compare the
# ratio to the floor, which is measured beside each call.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

with_crd() {
    hack/cluster.sh kubectl create -f deployments/helm/imex-dra/crd >/dev/null
    hack/cluster.sh kubectl wait --for=condition=Established crd/computedomains.resource.nvidia.com >/dev/null
}

# Runs in the namespaces of a node, beside its kubelet. The node's directories are on
# a disk, and its /run is a tmpfs.
node() {
    no_cluster
    cargo build --quiet --locked --release -p bench -p compute-domain-plugin
    cargo build --quiet --locked -p nvml-mock
    trap 'hack/cluster.sh down' EXIT
    hack/cluster.sh up --nodes 1
    hack/mock-node.sh 1 >/dev/null
    with_crd
    hack/cluster.sh exec --node 1 "$(realpath "$target_dir")/release/bench" node --node node1 "$@"
}

# As node(), with mock GPUs. The API server logs the plugin's requests.
gpus() {
    # shellcheck source=hack/cluster/state.sh
    . hack/cluster/state.sh
    no_cluster
    cargo build --quiet --locked --release -p bench -p gpu-plugin -p nvml-mock
    trap 'hack/cluster.sh down' EXIT
    IMEX_CLUSTER_AUDIT=hack/bench/audit-policy.yaml hack/cluster.sh up --nodes 1
    hack/cluster.sh exec --node 1 "$(realpath "$target_dir")/release/bench" gpus --node node1 \
        --audit-log "$state/log/audit.log" "$@"
}

# Runs in the namespaces of the control plane. Its API server logs the requests of
# the users that the audit policy names.
controller() {
    # shellcheck source=hack/cluster/state.sh
    . hack/cluster/state.sh
    no_cluster
    cargo build --quiet --locked --release -p bench -p compute-domain-controller
    trap 'hack/cluster.sh down' EXIT
    IMEX_CLUSTER_AUDIT=hack/bench/audit-policy.yaml hack/cluster.sh up --nodes 1
    with_crd
    hack/cluster.sh exec "$(realpath "$target_dir")/release/bench" controller --audit-log "$state/log/audit.log" "$@"
}

# As controller(), with simulated daemons. The controller manager is stopped: it would find that the nodes are
# simulated, too.
cliques() {
    # shellcheck source=hack/cluster/state.sh
    . hack/cluster/state.sh
    no_cluster
    cargo build --quiet --locked --release -p compute-domain-controller
    trap 'hack/cluster.sh down' EXIT
    IMEX_CLUSTER_AUDIT=hack/bench/cliques-audit-policy.yaml hack/cluster.sh up --nodes 1
    with_crd
    hack/cluster.sh kubectl create namespace imex-dra >/dev/null
    hack/cluster.sh kubectl wait --for=create serviceaccount/default -n imex-dra --timeout=60s >/dev/null
    hack/cluster.sh kubectl wait --for=condition=Established crd/computedomaincliques.resource.nvidia.com >/dev/null
    hack/cluster.sh stop controller-manager
    KUBECONFIG=$state/kubeconfig/admin hack/cluster.sh exec "$root/hack/bench/cliques.py" \
        --controller "$(realpath "$target_dir")/release/compute-domain-controller" --audit-log "$state/log/audit.log" "$@"
}

# Arguments are checked before the build, which takes minutes.
case ${1-} in
    modes) exec "$root/hack/bench/modes.py" "${@:2}" ;;
    checkpoint | cdi | kubelet | controller | node | gpus | cliques) ;;
    *) die "no benchmark '${1-}'; usage: hack/bench.sh checkpoint|cdi|kubelet [--rounds N] [--dir DIR], hack/bench.sh controller [--sizes N,N...], hack/bench.sh modes [--pairs N], or hack/bench.sh node|gpus [--rounds N]" ;;
esac
need_tools cargo cc
case $1 in
    controller | node | gpus | cliques)
        "$@"
        exit
        ;;
esac
# Also measured: cdi-gen and the example driver of dra-kubelet.
cargo build --quiet --locked --release -p bench -p cdi-gen
cargo build --quiet --locked --release -p dra-kubelet --example echo
exec "$target_dir/release/bench" "$@"
