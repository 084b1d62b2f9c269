#!/usr/bin/env bash
# The main job, on a real cluster, from nothing: two nodes of one NVLink clique,
# the chart, a ComputeDomain, and a Job of two pods that share its template.
# Each pod gets /dev/nvidia-caps-imex-channels/channel0; when they are gone,
# nothing is left.
#
#   hack/demo.sh          shows it and takes the cluster down
#   hack/demo.sh --keep   leaves the cluster up and says what to try next
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

keep=
case ${1-} in
    "") ;;
    --keep) keep=1 ;;
    *) die "unknown argument $1; usage: hack/demo.sh [--keep]" ;;
esac

cluster=hack/cluster.sh
channel=/dev/nvidia-caps-imex-channels/channel0
plugin_dir=/var/lib/kubelet/plugins/compute-domain.nvidia.com
k() { "$cluster" kubectl "$@"; }

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

# shows COMMAND...: prints the command as a user would type it, then runs it.
shows() {
    local words=$*
    printf '$ %s\n' "${words/#k /$cluster kubectl }"
    "$@"
}

# until_is WHAT EXPECTED COMMAND...: waits until the command prints EXPECTED.
until_is() {
    local what=$1 expected=$2 got='' deadline=$((SECONDS + 240))
    shift 2
    printf '... waiting until %s\n' "$what"
    until got=$("$@" 2>&1) && [ "$got" = "$expected" ]; do
        [ $SECONDS -lt $deadline ] || failed "$what: expected '$expected', got '$got'"
        sleep 0.3
    done
    [ -z "$expected" ] || printf 'ok  %s\n' "$expected"
}

# The major of the IMEX channels that node $1's mock driver has.
major_of() { "$cluster" exec --node "$1" sed -n 's/^ *\([0-9]*\) nvidia-caps-imex-channels$/\1/p' /run/nvidia/driver/proc-devices; }

failed() {
    k get pods,resourceclaims,computedomains,resourceclaimtemplates,events -A -o wide >&2 || true
    k logs -n imex-dra -l app.kubernetes.io/name=imex-dra --all-containers --prefix --tail=30 >&2 || true
    die "$1"
}

down() {
    status=$?
    [ $status = 0 ] || say "demo.sh: the demo failed; what it did last is above"
    if [ -n "$keep" ] && "$cluster" status >/dev/null; then
        say ""
        say "The cluster is up. Try:"
        say "  hack/cluster.sh kubectl get resourceslices,deviceclasses"
        say "  hack/cluster.sh kubectl apply -f hack/demo/train-a.yaml"
        say "  hack/cluster.sh kubectl logs -n imex-dra -l imex-dra-component=kubelet-plugin"
        say "  hack/cluster.sh exec --node 1 cat $plugin_dir/checkpoint.json"
        say "  hack/cluster.sh down"
    else
        "$cluster" down
    fi
    exit $status
}

step "A cluster of two nodes, each with a (mock) NVIDIA driver, and the chart"
! "$cluster" status >/dev/null || die "a cluster is up already; end it first with hack/cluster.sh down"
trap down EXIT
"$cluster" up --nodes 2
hack/install.sh
shows k get nodes,pods -A -o wide

step "What each node's plugin published: one channel"
slices() { k get resourceslices -o jsonpath='{range .items[*]}{.spec.nodeName}/{.spec.devices[*].name} {end}'; }
until_is "both nodes publish it" "node1/channel-0 node2/channel-0 " slices
shows k get resourceslices

step "A user's ComputeDomain and a Job of two pods that share its template"
shows cat hack/demo/train-a.yaml
shows k apply -f hack/demo/train-a.yaml
phases() { k get pods -l job-name=train-a -o jsonpath='{.items[*].status.phase}'; }
until_is "the domain is Ready" Ready k get computedomain train-a -o 'jsonpath={.status.status}'
until_is "both pods run" "Running Running" phases
shows k get computedomains,resourceclaimtemplates,resourceclaims
shows k get pods -o wide

step "Inside the pods: the device, its numbers, and the device cgroup"
pods=$(k get pods -l job-name=train-a -o jsonpath='{range .items[*]}{.metadata.name}:{.spec.nodeName} {end}')
nodes=
for entry in $pods; do
    pod=${entry%:*} node=${entry#*:node}
    nodes+="$node "
    major=$(major_of "$node")
    until_is "$pod on node$node has $channel: kind, mode, major (hex) of node$node's mock, minor" \
        "character special file 666 $(printf %x "$major") 0" k exec "$pod" -- stat -c '%F %a %t %T' "$channel"
    until_is "its open() passes the device cgroup and finds no driver behind the mock (ENXIO)" \
        "cat: can't open '$channel': No such device or address" k exec "$pod" -- sh -c "cat $channel 2>&1 || true"
    shows k exec "$pod" -- ls -l "$channel"
done
until_is "the pods are on both nodes" "1 2" xargs <<<"$(tr ' ' '\n' <<<"$nodes" | sort -n)"

step "A pod without the claim makes the same device by hand, and may not open it"
k run outsider --image=localhost/busybox:1 --image-pull-policy=Never --restart=Never \
    --overrides='{"spec":{"nodeName":"node1","terminationGracePeriodSeconds":1}}' -- sleep 100000 >/dev/null
until_is "the outsider runs" Running k get pod outsider -o 'jsonpath={.status.phase}'
major=$(major_of 1)
until_is "its open() is refused (EPERM)" "cat: can't open '/tmp/channel0': Operation not permitted" \
    k exec outsider -- sh -c "rm -f /tmp/channel0 && mknod /tmp/channel0 c $major 0 && cat /tmp/channel0 2>&1 || true"

step "On a node: the claim's CDI spec and the checkpoint"
shows "$cluster" exec --node 1 sh -c 'head -c 2000 /var/run/cdi/*claim_*; echo'
shows "$cluster" exec --node 1 sh -c "cat $plugin_dir/checkpoint.json; echo"

step "All of it is deleted, and nothing is left"
shows k delete --wait=true --timeout=120s -f hack/demo/train-a.yaml
k delete pod outsider --wait=true >/dev/null
left() { k get resourceclaims,resourceclaimtemplates,computedomains -o name; }
until_is "claims, template and domain (with their finalizers) are gone" "" left
for node in 1 2; do
    specs() { "$cluster" exec --node "$node" sh -c 'ls /var/run/cdi | grep claim_ || true'; }
    entries() { "$cluster" exec --node "$node" sh -c "grep -c preparedClaims $plugin_dir/checkpoint.json || true"; }
    until_is "node$node has no CDI file of a claim" "" specs
    until_is "node$node's checkpoint has no entry" 0 entries
done
printf '\nThe demo did what it should.\n'
