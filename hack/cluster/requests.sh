# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# Requests to the supervisor to end or start a component. Sourced after state.sh.

request() {
    supervisor_pid >/dev/null || die "the cluster is not up; start it with hack/cluster.sh up"
    echo "$*" 1<>"$state/control" # opened read-write: it must not wait for a reader
}

check_component() {
    is_component "$1" || die "no component '$1'; there are: $(component_names | tr '\n' ' ')"
}

# end_component NAME SIGNAL: waits until the component has ended; does not wait for
# signals that do not end it. The API server takes 60 s to end after SIGTERM.
end_component() {
    local before deadline=$((SECONDS + 90))
    check_component "$1"
    kill -l "$2" >/dev/null 2>&1 || die "no signal '$2'"
    before=$(component_state "$1")
    case $before in running*) ;; *) return 0 ;; esac
    request kill "$1" "$2"
    case $2 in KILL | TERM | INT | QUIT) ;; *) return 0 ;; esac
    until [ "$(component_state "$1")" != "$before" ]; do
        [ $SECONDS -lt $deadline ] || die "$1 did not end within 90 s of SIG$2; try hack/cluster.sh kill $1"
        sleep 0.05
    done
}

# start_component NAME: waits until its program runs.
start_component() {
    local before now deadline=$((SECONDS + 30))
    check_component "$1"
    before=$(component_state "$1")
    request start "$1"
    while :; do
        now=$(component_state "$1")
        case $now in
            running*) return 0 ;;
            "$before") ;;
            exited*)
                tail -n 10 "$state/log/$1.log" >&2
                die "$1 exited immediately; the end of its log is above"
                ;;
        esac
        [ $SECONDS -lt $deadline ] || die "$1 did not start within 30 s; see hack/cluster.sh logs supervisor"
        sleep 0.05
    done
}
