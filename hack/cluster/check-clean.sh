#!/usr/bin/env bash
# Checks that a cluster leaves nothing behind: compares the machine before `up` and
# after `down`, in ordinary runs and after `up` or the supervisor was killed at each
# step. Uses its own state directory. Takes about three minutes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"
# shellcheck disable=SC2154 # root: hack/lib.sh
cluster=$root/hack/cluster.sh
mkdir -p "$IMEX_CACHE"
scratch=$(mktemp -d "$IMEX_CACHE/check-clean.XXXXXX")
export IMEX_CLUSTER_DIR=$scratch/state
trap '"$cluster" down; rm -rf "$scratch"' EXIT

need_tools ip nft ps sysctl

# Lists everything that a cluster could leave on the machine, except in directories
# to which other programs write at any time.
snapshot() (
    set +e +o pipefail # other processes and files disappear while find runs
    mounts
    find /sys/fs/cgroup -maxdepth 2 -type d | sed 's/^/cgroup /'
    find /proc/[0-9]*/ns -lname 'pid:*' -printf '%l\n' 2>/dev/null |
        awk 'NR == FNR {ours[$0]; next} $0 in ours && !seen[$0]++ {print "namespace", $0}' "$scratch/namespaces" -
    ps -eo args --no-headers | awk -v dir="$IMEX_CLUSTER_DIR" '/hack\/cluster\/[s]upervisor/ || index($0, dir) && !/awk/ {print "process", $0}'
    ip -oneline link | awk '{print "link", $2}'
    ip netns list | sed 's/^/netns /'
    ip route | sed 's/^/route /'
    nft list ruleset | sed 's/^/nft /'
    sysctl -a 2>/dev/null | grep -E '^(vm\.(overcommit|panic)|kernel\.(panic|keys)|net\.ipv4\.(ip_forward|conf))' | sed 's/^/sysctl /'
    find / -xdev \( -path "$IMEX_CACHE" -o -path "$root" -o -path /tmp -o -path /var/tmp -o -path /var/log/journal \
        -o -path "${CARGO_HOME:-$HOME/.cargo}" -o -path "${XDG_CACHE_HOME:-$HOME/.cache}" \) -prune -o -printf 'file %p\n' 2>/dev/null
)

# Records the PID namespace of the running cluster, which contains all its processes:
# after `down` it must be empty.
note_namespace() {
    local pid
    pid=$(cat "$IMEX_CLUSTER_DIR/supervisor.pid") && readlink "/proc/$pid/ns/pid" >>"$scratch/namespaces"
}

mounts() { awk '{print "mount", $5, $3}' /proc/self/mountinfo; }

# The kernel removes network namespaces with a short delay.
expect_clean() {
    local deadline=$((SECONDS + 10))
    until snapshot | sort | diff "$scratch/before" - >"$scratch/difference"; do
        if [ $SECONDS -ge $deadline ]; then
            cat "$scratch/difference" >&2
            die "$1: the machine differs from before; < is missing, > is new"
        fi
        sleep 0.2
    done
    say "ok  $1"
}

# interrupted_up STEP VICTIM: runs `up` and kills VICTIM ("up" itself or the
# "supervisor") when `up` has printed STEP lines.
interrupted_up() {
    local pid lines=0
    exec {output}< <(exec "$cluster" up 2>&1)
    pid=$!
    while [ "$lines" -lt "$1" ] && read -r -u "$output" _; do lines=$((lines + 1)); done
    note_namespace
    case $2 in
        up) kill -s KILL "$pid" 2>/dev/null ;; # at the last step it has ended already
        supervisor) kill -s KILL "$(cat "$IMEX_CLUSTER_DIR/supervisor.pid")" ;;
    esac
    exec {output}<&-
    [ "$lines" = "$1" ] # fewer: `up` has no step of that number
}

# early_up SECONDS: starts `up` and kills it after SECONDS.
early_up() {
    local pid
    "$cluster" up >"$scratch/up.log" 2>&1 &
    pid=$!
    sleep "$1" # not a wait: the test varies this moment
    kill -s KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

expect() { [ "$2" = "$3" ] || die "$1: expected '$2', got '$3'"; }

a_pod_runs() {
    "$cluster" kubectl run "$1" --image=localhost/busybox:1 --image-pull-policy=Never -- sleep 1000000 >/dev/null
    "$cluster" kubectl wait --for=condition=Ready "pod/$1" --timeout=60s >/dev/null
}

echo none >"$scratch/namespaces"
"$cluster" build >/dev/null # installs and builds everything before the first snapshot
"$cluster" down
snapshot | sort >"$scratch/before"

"$cluster" up --nodes 2
note_namespace
a_pod_runs stale
for kind in cgroup namespace process; do
    [[ $(snapshot | sort | diff "$scratch/before" -) == *"> $kind "* ]] || die "the check does not find the $kind of a running cluster"
done
expect "up twice is up once" "cluster.sh: the cluster is already up" "cluster.sh: $("$cluster" up --nodes 2 2>&1)"
"$cluster" status >/dev/null
if "$cluster" up --nodes 1 2>/dev/null; then die "up with another number of nodes must fail"; fi
"$cluster" down
expect_clean "after down"
"$cluster" down
expect_clean "after a second down"

"$cluster" up 2>/dev/null
note_namespace
expect "every up starts with empty state" "" "$("$cluster" kubectl get pods --output=name)"
a_pod_runs mine
kill -s KILL "$(cat "$IMEX_CLUSTER_DIR/supervisor.pid")"
"$cluster" up 2>/dev/null
note_namespace
"$cluster" status >/dev/null
"$cluster" down
expect_clean "after the supervisor of a running cluster was killed, up, down"

"$cluster" up 2>/dev/null
timeout --signal=KILL 0.1 "$cluster" down || true # the moment does not matter
"$cluster" down
expect_clean "after down was killed, down"

for moment in 0.02 0.05 0.1 0.15 0.2 0.3 0.5; do
    early_up "$moment"
    "$cluster" down
    expect_clean "after up was killed $moment s after its start"
done
for victim in up supervisor; do
    step=1
    while interrupted_up $step $victim; do
        "$cluster" down
        expect_clean "after the $victim was killed in step $step of up"
        step=$((step + 1))
    done
    "$cluster" down
done
expect_clean "at the end"
