# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# Commands inside the cluster, from outside. Sourced after state.sh and
# namespaces.sh.

# enter K CMD...: becomes the command as node K sees the machine, or for K = 0
# as the control plane does, in the caller's directory where that exists inside.
# With the cluster's programs on PATH and kubectl's and helm's files in the state
# directory. The command ends when nsenter is killed, as nothing else would tell
# it.
enter() {
    local pid inside=() node=$1
    shift
    pid=$(supervisor_pid) || die "the cluster is not up; start it with hack/cluster.sh up"
    [ "$node" = 0 ] || inside=(nsenter --target "$(cat "$state/node$node/anchor")" --mount --net --uts --)
    # shellcheck disable=SC2016 # the inner shell's variables
    exec nsenter --target "$pid" --mount --net --uts --ipc --pid --cgroup -- \
        setpriv --pdeathsig KILL -- "${inside[@]}" \
        env "PATH=$(cat "$state/programs"):$PATH" "KUBECONFIG=$state/kubeconfig/admin" "HOME=$state/home" \
        "NO_PROXY=*" "no_proxy=*" \
        sh -c 'cd -- "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}
