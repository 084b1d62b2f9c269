# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# Runs commands inside the cluster, from outside. Sourced after state.sh and
# namespaces.sh.

# enter K CMD...: executes the command in the namespaces of node K, or for K = 0 of
# the control plane, in the caller's directory if it exists there. The cluster's
# programs are on PATH; kubectl's and helm's files are in the state directory.
# Killing nsenter kills the command (pdeathsig).
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
