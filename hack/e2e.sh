#!/usr/bin/env bash
# Runs the cluster tests (hack/cluster-tests) on a real cluster of two nodes
# with the chart installed.
#
#   hack/e2e.sh           all of them
#   hack/e2e.sh --must    those that every change must pass
#   hack/e2e.sh NAME      the files in hack/cluster-tests/tests whose name has NAME in it
#   hack/e2e.sh kubelet [FILTER]
#                         Kubernetes' node-level scenarios for DRA drivers, with
#                         drivers of dra-kubelet on the real kubelet (tests/kubelet),
#                         and a table of the results; needs no chart. FILTER: those
#                         whose name has it in it. Another kubelet, once by hand:
#                         IMEX_CLUSTER_KUBELET=$(hack/cluster/old-kubelet.sh)/kubelet hack/e2e.sh kubelet
#   --keep                leave the cluster up
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

# In this order: what restarts components or breaks nodes comes last.
must=(
    channel0_reaches_the_pods_of_a_domain
    allocation_mode_all_is_refused
    echo_driver_serves_a_pod
    doctor_finds_a_healthy_node_healthy
    a_missing_driver_is_reported_and_retried
    killed_and_restarted_components_recover
)
all=(
    the_crd_is_enforced_by_the_api_server
    channel0_reaches_the_pods_of_a_domain
    allocation_mode_all_is_refused
    echo_driver_serves_a_pod
    doctor_finds_a_healthy_node_healthy
    a_node_without_clique_fails_claims_until_it_has_one
    a_missing_driver_is_reported_and_retried
    a_damaged_checkpoint_is_rebuilt
    killed_and_restarted_components_recover
    the_plugin_starts_while_the_api_server_is_down
)

# Of the kubelet scenarios, with --must: seconds each.
must_kubelet=(
    a_passing_fault_costs_the_pod_no_resync
    a_slice_deleted_by_hand_is_back_within_a_second
)

# kubelet_scenarios FILTER...: inside node 1. First those that go side by side,
# mostly waiting for kubelet's timers; then those that restart kubelet or measure.
kubelet_scenarios() {
    local status=0 table version run=(cargo)
    table=$(mktemp)
    run+=(--config "target.'cfg(all())'.runner=['$root/hack/cluster.sh', 'exec', '--node', '1']")
    run+=(test --locked -p cluster-tests --test kubelet --)
    export KUBELET_TABLE=$table
    "${run[@]}" --ignored --skip alone:: --test-threads=40 "$@" || status=1
    "${run[@]}" --ignored --skip together:: --test-threads=1 "$@" || status=1
    [ -s "$table" ] || die "no scenario ran; is there one with ${*:-any name} in its name? See hack/cluster-tests/tests/kubelet"
    version=$(hack/cluster.sh kubectl get node node1 -o 'jsonpath={.status.nodeInfo.kubeletVersion}')
    printf '\nkubelet %s\n| no. | scenario | result | seconds | remark |\n|---|---|---|---|---|\n' "$version"
    sort -V "$table" | awk -F '\t' '{printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5}'
    rm -f "$table"
    return $status
}

keep=
suite=all
tests=("${all[@]}")
filter=()
for argument in "$@"; do
    case $argument in
        --keep) keep=1 ;;
        --must) tests=("${must[@]}") suite=must filter=("${must_kubelet[@]}") ;;
        kubelet) tests=() suite=kubelet ;;
        -*) die "unknown argument $argument; usage: hack/e2e.sh [--must|NAME|kubelet [FILTER]] [--keep]" ;;
        *)
            [ "$suite" != kubelet ] || { filter+=("$argument"); continue; }
            suite=named
            mapfile -t tests < <(printf '%s\n' "${all[@]}" | grep -F -- "$argument" || true)
            [ ${#tests[@]} -gt 0 ] || die "no cluster test has $argument in its name; there are: ${all[*]}"
            ;;
    esac
done
for file in hack/cluster-tests/tests/*.rs; do
    name=$(basename "$file" .rs)
    [[ " ${all[*]} " == *" $name "* ]] || die "$file is not listed in hack/e2e.sh"
done
for name in "${must_kubelet[@]}"; do
    grep -rqF "fn $name()" hack/cluster-tests/tests/kubelet || die "no kubelet scenario is called $name; must_kubelet in hack/e2e.sh names it"
done

[ -n "$keep" ] || trap 'hack/cluster.sh down' EXIT
hack/cluster.sh up --nodes 2
if [ ${#tests[@]} -gt 0 ]; then
    hack/install.sh
    cargo build --quiet --locked -p dra-kubelet --example echo
    cargo build --quiet --locked -p cdi-gen
    cargo test --locked -p cluster-tests "${tests[@]/#/--test=}" -- --ignored --test-threads=1
fi
if [ "$suite" != named ]; then kubelet_scenarios "${filter[@]}"; fi
if [ "$suite" = all ]; then
    hack/cluster.sh down
    hack/cluster/check-clean.sh
fi
