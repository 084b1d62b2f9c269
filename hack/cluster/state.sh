# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# The state directory of a cluster: its files, its lock and the components' states.
# Sourced after hack/lib.sh.
#
#   cluster.lock      held (flock) by the supervisor while it runs, and by an
#                     `up` or `down` while it changes state: a free lock means
#                     that no process of the cluster exists
#   supervisor.pid    the supervisor's pid on the host, written by itself
#   nodes, programs   the number of nodes; the directory of the programs
#   kubelet, gates    the nodes' kubelet program; its feature gates
#   version-gates     gates of all components that the tests need with this Kubernetes, or empty
#   control-plane-gates  additional gates of API server, scheduler and controller manager, if any
#   audit-policy      selects the requests that the API server logs to log/audit.log; without it, none
#   progress          what `up` is waiting for, one line each
#   ready             exists once `up` is done
#   control           fifo: requests to the supervisor, one per line
#   components/NAME   "starting", "running PID" or "exited STATUS TIME"
#   log/NAME.log      what the component printed
#   kubeconfig/NAME   kubeconfig of the component, or of "admin"
#   etcd/ api/ node1/ node2/ ...
#                     their data, new with every `up`

state=$(realpath -m "${IMEX_CLUSTER_DIR:-$IMEX_CACHE/cluster/state}")
lock=$state/cluster.lock

# The cluster's directory in every cgroup hierarchy of the host. Derived from the
# state directory's path, so that `down` finds it even when nothing else is left.
cgroup=imex-dra-$(printf '%s' "$state" | sha256sum | cut -c1-12)

node_count() { cat "$state/nodes"; }

component_names() {
    printf '%s\n' etcd apiserver scheduler controller-manager
    local k
    for k in $(seq 1 "$(node_count)"); do
        printf '%s\n' "containerd-$k" "kubelet-$k" "proxy-$k"
    done
}

is_component() { [[ $'\n'$(component_names)$'\n' == *$'\n'"$1"$'\n'* ]]; }

component_state() { cat "$state/components/$1" 2>/dev/null || echo absent; }

set_component_state() {
    echo "$2" >"$state/components/$1.new"
    mv "$state/components/$1.new" "$state/components/$1"
}

# A free lock means that no process of the cluster exists.
lock_is_free() { [ ! -e "$lock" ] || flock --shared --nonblock "$lock" true; }

# The supervisor's pid, if it is running. While the lock is held, the pid is not
# reused; a process that is ending has no namespaces any more.
supervisor_pid() {
    local pid
    ! lock_is_free && pid=$(cat "$state/supervisor.pid" 2>/dev/null) && [ -e "/proc/$pid/ns/mnt" ] && echo "$pid"
}

# Empties the state directory except for the named entries. The caller holds the lock.
clear_state() {
    local keep=(! -name "$(basename "$lock")") name
    for name in "$@"; do keep+=(! -name "$name"); done
    find "$state" -mindepth 1 -maxdepth 1 "${keep[@]}" -exec rm -rf --one-file-system -- {} +
}
