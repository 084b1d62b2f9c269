#!/usr/bin/env bash
# A real Kubernetes cluster with one or more nodes on this machine, in private
# namespaces. It is not reachable from outside, and `down` leaves nothing behind.
#
#   hack/cluster.sh build              builds the programs, once (15 minutes)
#   hack/cluster.sh up [--nodes N]     starts the cluster with empty state; node1 ... nodeN
#   hack/cluster.sh down               ends the cluster; keeps the logs
#   hack/cluster.sh status             components and nodes; fails unless all run
#   hack/cluster.sh kubectl ARG...     as cluster admin
#   hack/cluster.sh helm ARG...        likewise; relative paths are the caller's
#   hack/cluster.sh exec [--node K] CMD...
#                                      runs a command in the namespaces of node K,
#                                      by default of the control plane
#   hack/cluster.sh load IMAGE.tar [ARCH]
#                                      imports an OCI or docker archive on each node; ARCH: the image's
#                                      CPU architecture if not this machine's (needs an emulator)
#   hack/cluster.sh logs NAME          prints a component's log
#   hack/cluster.sh kill NAME [SIGNAL] ends a component with SIGKILL or SIGNAL
#   hack/cluster.sh stop NAME          ends it with SIGTERM
#   hack/cluster.sh start NAME         starts it again
#   hack/cluster.sh restart NAME       stop, then start
#   hack/cluster.sh gates [A=false,B=true]
#                                      sets feature gates of API server, scheduler and
#                                      controller manager from their next start on;
#                                      by default their own defaults
#
# NAME: supervisor and audit (logs only), etcd, apiserver, scheduler, controller-manager,
# and for each node K containerd-K, kubelet-K, proxy-K. A component that died is
# not restarted.
#
# Every node has the images localhost/pause:1 and localhost/busybox:1, also under the
# name that examples/ use, docker.io/library/busybox:1. Private to the node: /run
# (tmpfs), /etc/cdi, /var/lib/kubelet, /var/lib/containerd, /var/log, and changes in
# /dev, which shows the machine's devices. There is no cluster DNS.
#
# IMEX_CLUSTER_DIR       the state directory ($IMEX_CACHE/cluster/state)
# IMEX_CLUSTER_DEADLINE  seconds after which `up` gives up (120)
# IMEX_CLUSTER_KUBERNETES  another Kubernetes version, for runs by hand: 1.34 or 1.37, built by
#                        hack/cluster/other-kubernetes.sh. Enables the gates in its file `gates`
#                        (on by default in the usual version) and the APIs in `apis` (without them
#                        a gate's informers never start)
# IMEX_CLUSTER_KUBELET   another kubelet for the nodes, such as an older one:
#                        IMEX_CLUSTER_KUBELET=$(hack/cluster/other-kubernetes.sh 1.34)/kubelet
# IMEX_CLUSTER_GATES     the kubelets' feature gates, such as "A: true, B: false"
# IMEX_CLUSTER_AUDIT     audit policy file: the API server writes the requests that it
#                        selects to the log `audit`, one JSON object per line
set -euo pipefail

# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
here=$root/hack/cluster
# shellcheck source=hack/cluster/state.sh
. "$here/state.sh"
# shellcheck source=hack/cluster/cgroups.sh
. "$here/cgroups.sh"
# shellcheck source=hack/cluster/namespaces.sh
. "$here/namespaces.sh"
# shellcheck source=hack/cluster/enter.sh
. "$here/enter.sh"
# shellcheck source=hack/cluster/requests.sh
. "$here/requests.sh"
# shellcheck source=hack/cluster/images.sh
. "$here/images.sh"
# shellcheck source=hack/emulator.sh
. "$root/hack/emulator.sh"

usage() {
    sed -n '/^#   /s/^#   //p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

main() {
    local verb=${1-}
    shift || usage
    case $verb in
        build) "$here/build.sh" ;;
        up) as_root up "$@" ;;
        down) as_root down ;;
        status) as_root status ;;
        exec) as_root exec_command "$@" ;;
        kubectl | helm) as_root enter 0 "$verb" "$@" ;;
        load) as_root load "$@" ;;
        logs) logs "$@" ;;
        kill) as_root end_component "${1-}" "${2:-KILL}" ;;
        stop) as_root end_component "${1-}" TERM ;;
        start) as_root start_component "${1-}" ;;
        restart)
            as_root end_component "${1-}" TERM
            start_component "$1"
            ;;
        gates) as_root set_gates "${1-}" ;;
        *) usage ;;
    esac
}

set_gates() {
    supervisor_pid >/dev/null || die "the cluster is not running; start it with hack/cluster.sh up"
    [[ $1 =~ ^([A-Za-z]+=(true|false)(,|$))*$ ]] || die "'$1' is not a list of gates, such as A=false,B=true"
    echo "$1" >"$state/control-plane-gates"
}

as_root() {
    [ "$(id -u)" = 0 ] || die "the cluster needs root: run sudo --preserve-env=PATH hack/cluster.sh ..."
    "$@"
}

up() {
    local nodes=1
    case ${1-} in
        "") ;;
        --nodes) nodes=${2-} ;;
        *) die "unknown argument $1; usage: hack/cluster.sh up [--nodes N]" ;;
    esac
    [[ $nodes =~ ^[1-9][0-9]?$ ]] || die "--nodes takes a number from 1 to 99, not '$nodes'"
    check_machine
    local programs
    if [ -n "${IMEX_CLUSTER_KUBERNETES-}" ]; then
        programs=$("$here/other-kubernetes.sh" "$IMEX_CLUSTER_KUBERNETES")
    else
        programs=$("$here/build.sh")/bin
    fi
    local version_gates="" version_apis="" pins=$here/other-kubernetes/${IMEX_CLUSTER_KUBERNETES-}
    if [ -n "${IMEX_CLUSTER_KUBERNETES-}" ]; then
        [ ! -e "$pins/gates" ] || version_gates=$(<"$pins/gates")
        [ ! -e "$pins/apis" ] || version_apis=$(<"$pins/apis")
    fi
    local kubelet=${IMEX_CLUSTER_KUBELET:-$programs/kubelet}
    [[ $kubelet = /* && -x $kubelet ]] || die "IMEX_CLUSTER_KUBELET is '$kubelet', which is not the absolute path of a program"
    local policy=${IMEX_CLUSTER_AUDIT-}
    [[ -z $policy || -r $policy ]] || die "IMEX_CLUSTER_AUDIT is '$policy', which is not a readable file"
    mkdir -p "$state"
    exec 9>>"$lock"
    until flock --nonblock 9; do
        if supervisor_pid >/dev/null; then
            exec 9>&-
            join_running_cluster "$nodes"
            return
        fi
        sleep 0.1 # another `up` is starting the supervisor, or the supervisor is ending
    done
    rm -f "$state/supervisor.pid"
    remove_cgroups
    clear_state
    mkdir "$state/log"
    echo "$nodes" >"$state/nodes"
    echo "$programs" >"$state/programs"
    echo "$kubelet" >"$state/kubelet"
    echo "$version_gates" >"$state/version-gates"
    echo "$version_apis" >"$state/version-apis"
    # A=true,B=false as YAML.
    local kubelet_gates=${version_gates//=/: }
    printf %s "${kubelet_gates//,/, }${kubelet_gates:+, }${IMEX_CLUSTER_GATES-}" >"$state/gates"
    [ -z "$policy" ] || cp -- "$policy" "$state/audit-policy"
    setsid unshare --fork --kill-child=SIGKILL \
        --pid --mount --net --uts --ipc --propagation private \
        bash "$here/supervisor.sh" </dev/null >"$state/log/supervisor.log" 2>&1 &
    exec 9>&- # the supervisor holds the lock from here on
    follow_progress
}

check_machine() {
    need_tools ip nft runc busybox openssl unshare nsenter setpriv setsid flock
    ! ldd "$(command -v busybox)" >/dev/null 2>&1 ||
        die "busybox is not static; run: apt-get install busybox-static"
    case $state/ in
        /etc/* | /run/* | /var/lib/* | /var/log/* | /proc/* | /sys/*)
            die "the state directory $state is in a directory that each node replaces by its own; set IMEX_CLUSTER_DIR to another" ;;
    esac
    if [ -d "$state" ] && [ ! -e "$lock" ] && [ -n "$(ls -A "$state")" ]; then
        die "$state is not empty and not a cluster's state directory; set IMEX_CLUSTER_DIR to an empty directory"
    fi
    local free_mib
    free_mib=$(df --output=avail -m "$(existing_parent "$state")" | tail -1)
    [ "$free_mib" -ge 2000 ] ||
        die "a cluster needs 2000 MiB in $state, but $free_mib MiB are free; free some, or set IMEX_CLUSTER_DIR to a directory on a larger disk"
}

existing_parent() {
    local path=$1
    until [ -e "$path" ]; do path=$(dirname "$path"); done
    echo "$path"
}

join_running_cluster() {
    local running
    running=$(node_count)
    [ "$running" = "$1" ] || die "a cluster with --nodes $running is up; end it first with hack/cluster.sh down"
    if [ -e "$state/ready" ]; then
        say "the cluster is already up"
    else
        follow_progress
    fi
}

# Prints the supervisor's progress until it is ready or has ended.
follow_progress() {
    local line alive=1 lines
    until [ -e "$state/progress" ] || lock_is_free; do sleep 0.05; done
    [ -e "$state/progress" ] || no_supervisor
    exec {lines}<"$state/progress"
    while :; do
        if [ -e "$state/ready" ]; then alive=ready; elif lock_is_free; then alive=; fi
        while IFS= read -r -u "$lines" line; do say "$line"; done
        case $alive in
            ready) return ;;
            "") no_supervisor ;;
        esac
        sleep 0.1
    done
}

no_supervisor() {
    tail -n 5 "$state/log/supervisor.log" >&2 || true
    die "the cluster did not start; the reason is above, logs are in $state/log. Clean up with hack/cluster.sh down"
}

down() {
    local each
    for each in $architectures; do
        use_architecture "$each"
        unregister_emulator "$(emulator_of_cluster "$cgroup")"
    done
    [ -d "$state" ] || { remove_cgroups; return; }
    local deadline=$((SECONDS + 60)) pid
    exec 9>>"$lock"
    until flock --nonblock 9; do
        [ $SECONDS -lt $deadline ] || die "$lock is still held after 60 s; find the process with: fuser -v $lock"
        # The process in supervisor.pid is, or was, the holder. If another `up` holds the
        # lock, its supervisor will write a pid.
        if pid=$(cat "$state/supervisor.pid" 2>/dev/null); then kill -s KILL "$pid" 2>/dev/null || true; fi
        sleep 0.05
    done
    rm -f "$state/supervisor.pid"
    remove_cgroups
    clear_state log
}

status() {
    local all_run=0 name now
    supervisor_pid >/dev/null || { echo "down (state directory $state)"; return 1; }
    [ -e "$state/ready" ] || { echo "starting (state directory $state)"; return 1; }
    echo "up with $(node_count) nodes (state directory $state)"
    while read -r name; do
        now=$(component_state "$name")
        case $now in exited*) all_run=1 now="$now; not restarted: hack/cluster.sh start $name" ;; esac
        printf '%-20s %s\n' "$name" "$now"
    done < <(component_names)
    (enter 0 kubectl get nodes --request-timeout=5s) || all_run=1
    return $all_run
}

exec_command() {
    local node=0
    if [ "${1-}" = --node ]; then
        node=${2-}
        if [[ ! $node =~ ^[1-9][0-9]*$ || ! -e $state/node$node/anchor ]]; then
            die "no node '$node'; usage: hack/cluster.sh exec [--node K] CMD..."
        fi
        shift 2
    fi
    [ "${1-}" != -- ] || shift
    [ $# -gt 0 ] || die "no command; usage: hack/cluster.sh exec [--node K] CMD..."
    enter "$node" "$@"
}

load() {
    local archive=${1-} arch=${2-} k
    [ -r "$archive" ] || die "no archive '$archive'; usage: hack/cluster.sh load IMAGE.tar [ARCH]"
    supervisor_pid >/dev/null || die "the cluster is not up; start it with hack/cluster.sh up"
    check_architectures "$archive" "${arch:-$(native_architecture)}"
    for k in $(seq 1 "$(node_count)"); do
        say "loading $archive on node$k"
        import_archive "$archive" "$arch" enter "$k" || die "$archive could not be imported on node$k; containerd's error is above"
    done
}

logs() {
    local file=$state/log/${1-}.log
    [ -e "$file" ] || die "no log of '${1-}'; there are: $(find "$state/log" -name '*.log' -printf '%f ' 2>/dev/null | sed 's/\.log//g')"
    cat "$file"
}

main "$@"
