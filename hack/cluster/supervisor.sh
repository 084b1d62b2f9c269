#!/usr/bin/env bash
# PID 1 of the cluster: sets up mounts and networks, starts the components in order,
# then starts, kills and restarts single ones on request. When it ends, the kernel
# ends every other process of its PID namespace, and with them all mounts and
# networks.
#
# `hack/cluster.sh up` runs it in new namespaces, with the state directory's lock on
# descriptor 9. This script has three roles, by argument:
#   (nothing)   joins the cluster's cgroups, then executes
#   supervise   the supervisor, in a cgroup namespace that starts there
#   anchor K    keeps the namespaces of node K open (node.sh)
#
# It restarts nothing by itself, so that tests see a component that died.
set -euo pipefail
trap 'echo "supervisor: line $LINENO of ${BASH_SOURCE[0]}: $BASH_COMMAND failed" >&2' ERR

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"
# shellcheck source=hack/cluster/state.sh
. "$here/state.sh"
# shellcheck source=hack/cluster/cgroups.sh
. "$here/cgroups.sh"
# shellcheck source=hack/cluster/namespaces.sh
. "$here/namespaces.sh"
# shellcheck source=hack/cluster/control-plane.sh
. "$here/control-plane.sh"
# shellcheck source=hack/cluster/node.sh
. "$here/node.sh"
# shellcheck source=hack/cluster/images.sh
. "$here/images.sh"
programs=$(cat "$state/programs")
give_up_after=${IMEX_CLUSTER_DEADLINE:-120}

main() {
    cd /
    case ${1-} in
        anchor) hold_node "$2" ;;
        supervise) supervise ;;
        *)
            # /proc is still the host's, so this is the pid on the host.
            read -r pid _ </proc/self/stat
            echo "$pid" >"$state/supervisor.pid"
            join_cgroups
            exec unshare --cgroup bash "$here/supervisor.sh" supervise
            ;;
    esac
}

supervise() {
    local k
    mount_common
    divide_v2_root
    control_plane_network
    mkdir -p "$state"/{components,log,home,tmp}
    mkfifo "$state/control"
    exec 8<>"$state/control"
    write_identities
    snapshotter >"$state/snapshotter"
    for k in $(seq 1 "$(node_count)"); do
        start_anchor "$k"
        write_node_configs "$k"
    done
    start_all
    rm -rf "$state/tmp"/images*
    progress "the cluster is up"
    touch "$state/ready"
    serve_requests
}

# Starts all components in the order of their dependencies.
start_all() {
    local k nodes
    nodes=$(seq 1 "$(node_count)")
    start etcd
    start apiserver
    for k in $nodes; do start "containerd-$k"; done
    write_base_images "$state/tmp/images.tar"
    for k in $nodes; do
        wait_for "containerd-$k" "containerd of node$k answers" containerd_answers "$k"
        import_archive "$state/tmp/images.tar" "" in_node "$k" || fail "containerd-$k" "the base images could not be imported"
    done
    wait_for apiserver "the API server is ready" admin get --raw=/readyz
    start scheduler
    start controller-manager
    for k in $nodes; do
        start "kubelet-$k"
        start "proxy-$k"
    done
    for k in $nodes; do
        wait_for "kubelet-$k" "node$k is Ready and free of taints" node_is_usable "$k"
        wait_for "proxy-$k" "node$k reaches the service of the API server" service_is_routed "$k"
    done
    wait_for controller-manager "pods can be made in the default namespace" admin get serviceaccount default
}

# In subshells, because each replaces its shell by the program.
admin() { (as_component kubectl --kubeconfig "$state/kubeconfig/admin" --request-timeout=5s "$@"); }
containerd_answers() { (in_node "$1" ctr --address "$containerd_socket" version); }
service_is_routed() { [[ $(in_node "$1" nft list table ip kube-proxy) == *"$service_of_api_server"* ]]; }
node_is_usable() {
    [ "$(admin get node "node$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}{.spec.taints}')" = True ]
}

progress() { printf '%3ds  %s\n' $SECONDS "$*" >>"$state/progress"; }

# wait_for COMPONENT WHAT COMMAND...: waits until the command succeeds; fails if any
# component exits or `up` takes too long. After a timeout, it shows COMPONENT's log.
wait_for() {
    local component=$1 what=$2 dead
    shift 2
    progress "waiting until $what"
    until "$@" >/dev/null 2>&1; do
        dead=$(cd "$state/components" && grep -l ^exited -- * | head -1) || true
        [ -z "$dead" ] || fail "$dead" "$dead exited while waiting until $what"
        [ $SECONDS -lt "$give_up_after" ] || fail "$component" "gave up after $give_up_after s waiting until $what"
        sleep 0.1
    done
}

# fail COMPONENT WHY: ends the supervisor, and so the cluster.
fail() {
    {
        echo "$2; the end of $state/log/$1.log:"
        tail -n 20 "$state/log/$1.log" || true
    } >>"$state/progress"
    exit 1
}

# start NAME: starts it unless it runs. A child of the supervisor waits for the
# program and records its end.
start() {
    local name=$1 node=()
    case $(component_state "$name") in starting | running*) return 0 ;; esac
    case $name in *-[0-9]*) node=("${name##*-}") ;; esac
    set_component_state "$name" starting
    {
        exec 8>&- 9>&-
        "run_${name%-[0-9]*}" "${node[@]}" </dev/null >>"$state/log/$name.log" 2>&1 &
        set_component_state "$name" "running $!"
        status=0
        wait $! || status=$?
        set_component_state "$name" "exited $status $(date +%T.%3N)"
    } &
}

# Requests: "start NAME" and "kill NAME SIGNAL". The sender waits for the component's
# state to change.
serve_requests() {
    local verb name signal pid
    while read -r -u 8 verb name signal; do
        is_component "$name" || continue
        case $verb in
            start) start "$name" ;;
            kill)
                pid=$(component_state "$name")
                case $pid in running*) kill -s "$signal" "${pid#running }" || true ;; esac
                ;;
        esac
    done
}

main "$@"
