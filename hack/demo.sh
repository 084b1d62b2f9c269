#!/usr/bin/env bash
# End-to-end demo on a new cluster: two nodes of one NVLink clique, and the chart. At the end it deletes all objects
# and checks that the driver has left nothing behind.
#
#   hack/demo.sh [--mode hostManaged|driverManaged] [--arch arm64|amd64] [--keep]
#
# hostManaged, the default: a ComputeDomain, and a Job of two pods that share its template. Each pod gets
#                 /dev/nvidia-caps-imex-channels/channel0.
# driverManaged:  one IMEX daemon on each node, two ComputeDomains and a Job of two pods in each. Each pod gets
#                 the channel of its own ComputeDomain.
# --arch          CPU architecture of the chart's image and the (mock) driver. If it is not this machine's, programs
#                 run in an emulator, which is registered with the kernel (binfmt_misc) until the demo ends
# --keep          leaves the cluster up and prints what to try next; by default, the cluster is taken down
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

keep_up=''
mode=hostManaged
# shellcheck source=hack/machine.sh
. hack/machine.sh
# shellcheck source=hack/emulator.sh
. hack/emulator.sh
# shellcheck source=hack/cluster/state.sh
. hack/cluster/state.sh
use_architecture "$(native_architecture)"
while [ $# -gt 0 ]; do
    case $1 in
        --keep) keep_up=1 && shift ;;
        --mode)
            [[ ${2-} = hostManaged || ${2-} = driverManaged ]] || die "--mode is hostManaged or driverManaged, not '${2-}'"
            mode=$2
            shift 2
            ;;
        --arch)
            use_architecture "${2-}"
            shift 2
            ;;
        *) die "unknown argument $1; usage: hack/demo.sh [--mode hostManaged|driverManaged] [--arch arm64|amd64] [--keep]" ;;
    esac
done
export IMEX_CLUSTER_ARCH=$architecture

cluster=hack/cluster.sh
manifest=''
plugin_dir=/var/lib/kubelet/plugins/compute-domain.nvidia.com
k() { "$cluster" kubectl "$@"; }

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

# shows COMMAND...: prints the command that a user would type, then runs it.
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

# The major of the IMEX channels in node $1's mock driver.
major_of() { "$cluster" exec --node "$1" sed -n 's/^ *\([0-9]*\) nvidia-caps-imex-channels$/\1/p' /run/nvidia/driver/proc/devices; }

# sorted COMMAND: the words of its output, sorted.
sorted() { "$@" | tr " " "\n" | sort | xargs; }

failed() {
    k get pods,resourceclaims,computedomains,resourceclaimtemplates,events -A -o wide >&2 || true
    k logs -n imex-dra -l app.kubernetes.io/name=imex-dra --all-containers --prefix --tail=30 >&2 || true
    die "$1"
}

down() {
    status=$?
    end_children
    [ $status = 0 ] || [ -z "$is_begun" ] || say "demo.sh: the demo failed; its last step is above"
    if [ -n "$keep_up" ] && "$cluster" status >/dev/null; then
        say ""
        say "The cluster is up. Try:"
        say "  hack/cluster.sh kubectl get resourceslices,deviceclasses"
        say "  hack/cluster.sh kubectl apply -f $manifest"
        say "  hack/cluster.sh kubectl logs -n imex-dra -l imex-dra-component=kubelet-plugin"
        say "  hack/cluster.sh exec --node 1 cat $plugin_dir/checkpoint.json"
        say "  hack/cluster.sh down"
        is_native || say "The emulator stays registered until then."
    else
        "$cluster" down
    fi
    exit $status
}

step "A cluster of two nodes, each with a (mock) NVIDIA driver, and the chart"
no_cluster
need_tools readelf pgrep flock
# Two demos at once would use the same cluster and image.
need_cache "$IMEX_CACHE"
exec 8>"$IMEX_CACHE/demo.lock"
flock --nonblock 8 || die "another hack/demo.sh is running; wait until it ends"
is_native || need_target
is_begun=''
trap down EXIT
is_native || register_emulator "$(emulator_of_cluster "$cgroup")" || die "$why"
is_begun=1
"$cluster" up --nodes 2 8>&-
hack/install.sh --mode "$mode"
shows k get nodes,pods -A -o wide

step "Each node's plugin publishes one channel"
slices() { k get resourceslices -o jsonpath='{range .items[*]}{.spec.nodeName}/{.spec.devices[*].name} {end}'; }
until_is "both nodes have published it" "node1/channel-0 node2/channel-0 " slices
shows k get resourceslices

step "The CPU architecture of the plugin's program"
# The test cluster's nodes see all processes of this machine. Only for those that run in the image, the path
# through /proc/PID/root exists.
# shellcheck disable=SC2016 # the node's own shell
plugins='for pid in $(pgrep -f compute-domain-kubelet-plugin); do
    readelf -h /proc/$pid/root/usr/bin/compute-domain-kubelet-plugin 2>/dev/null
done; true'
built_for() { "$cluster" exec --node 1 sh -c "$plugins" | sed -n 's/^ *Machine: *//p' | sort | uniq -c | sed 's/^ *//'; }
until_is "both plugins are programs for $architecture" "2 $elf_machine" built_for

if [ "$mode" = hostManaged ]; then
    # shellcheck source=hack/demo/host-managed.sh
    . hack/demo/host-managed.sh
else
    # shellcheck source=hack/demo/driver-managed.sh
    . hack/demo/driver-managed.sh
fi

step "Everything is deleted, and nothing is left behind"
shows k delete --wait=true --timeout=120s -f "$manifest"
left() { k get resourceclaims,resourceclaimtemplates,computedomains -o name; }
until_is "claims, template and domain are deleted (no finalizer holds them)" "" left
for node in 1 2; do
    specs() { "$cluster" exec --node "$node" sh -c 'ls /var/run/cdi | grep claim_ || true'; }
    entries() { "$cluster" exec --node "$node" sh -c "grep -c preparedClaims $plugin_dir/checkpoint.json || true"; }
    until_is "node$node has no CDI file of a claim" "" specs
    until_is "node$node's checkpoint has no entry" 0 entries
done
printf '\nThe demo succeeded.\n'
