# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# The state directory: where everything of one cluster lives, who owns it, and
# what it says about the components. Sourced after hack/lib.sh.
#
#   cluster.lock      held (flock) by the supervisor while it lives, and by an
#                     `up` or `down` while it changes things: a free lock means
#                     that no process of the cluster exists
#   supervisor.pid    the supervisor's pid on the host, written by itself
#   nodes, programs   the number of nodes; the directory of the programs
#   kubelet, gates    the program that is the nodes' kubelet; its feature gates
#   version-gates     gates of all components that this Kubernetes needs for the tests, or empty
#   control-plane-gates  more of them, of API server, scheduler and controller manager, if any
#   audit-policy      which requests the API server writes to log/audit.log; without it, none
#   progress          what `up` waits for, one line each
#   ready             exists once `up` is done
#   control           fifo: requests to the supervisor, one per line
#   components/NAME   "starting", "running PID" or "exited STATUS TIME"
#   log/NAME.log      what the component printed
#   kubeconfig/NAME   how the component, or "admin", reaches the API server
#   etcd/ api/ node1/ node2/ ...
#                     the data of each, new with every `up`

state=$(realpath -m "${IMEX_CLUSTER_DIR:-$IMEX_CACHE/cluster/state}")
lock=$state/cluster.lock

# The cluster's directory in every cgroup hierarchy of the host. Follows from
# the state directory, so that `down` finds it when nothing else is left.
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

# Free means that no process of the cluster is left (above).
lock_is_free() { [ ! -e "$lock" ] || flock --shared --nonblock "$lock" true; }

# The pid of the supervisor, if it lives: a held lock means that nobody else has
# its pid yet, and a process that is ending has no namespaces any more.
supervisor_pid() {
    local pid
    ! lock_is_free && pid=$(cat "$state/supervisor.pid" 2>/dev/null) && [ -e "/proc/$pid/ns/mnt" ] && echo "$pid"
}

# Empties the state directory except for the entries named. The lock is held.
clear_state() {
    local keep=(! -name "$(basename "$lock")") name
    for name in "$@"; do keep+=(! -name "$name"); done
    find "$state" -mindepth 1 -maxdepth 1 "${keep[@]}" -exec rm -rf --one-file-system -- {} +
}
