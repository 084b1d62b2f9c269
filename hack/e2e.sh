#!/usr/bin/env bash
# Runs the cluster tests (hack/cluster-tests) on a real cluster of two nodes
# with the chart installed.
#
#   hack/e2e.sh           all of them
#   hack/e2e.sh --must    those that every change must pass
#   hack/e2e.sh NAME      the files in hack/cluster-tests/tests whose name has NAME in it
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
    a_host_without_driver_is_a_state
    deaths_and_restarts_change_nothing
)
all=(
    channel0_reaches_the_pods_of_a_domain
    allocation_mode_all_is_refused
    echo_driver_serves_a_pod
    a_node_without_clique_refuses
    a_host_without_driver_is_a_state
    a_damaged_checkpoint_is_rebuilt
    deaths_and_restarts_change_nothing
    an_api_server_that_is_down_is_waited_for
)

keep=
tests=("${all[@]}")
for argument in "$@"; do
    case $argument in
        --keep) keep=1 ;;
        --must) tests=("${must[@]}") ;;
        -*) die "unknown argument $argument; usage: hack/e2e.sh [--must|NAME] [--keep]" ;;
        *)
            mapfile -t tests < <(printf '%s\n' "${all[@]}" | grep -F -- "$argument" || true)
            [ ${#tests[@]} -gt 0 ] || die "no cluster test has $argument in its name; there are: ${all[*]}"
            ;;
    esac
done
for file in hack/cluster-tests/tests/*.rs; do
    name=$(basename "$file" .rs)
    [[ " ${all[*]} " == *" $name "* ]] || die "$file is not listed in hack/e2e.sh"
done

[ -n "$keep" ] || trap 'hack/cluster.sh down' EXIT
hack/cluster.sh up --nodes 2
hack/install.sh
cargo build --quiet --locked -p dra-kubelet --example echo
cargo test --locked -p cluster-tests "${tests[@]/#/--test=}" -- --ignored --test-threads=1
if [ ${#tests[@]} = ${#all[@]} ]; then
    hack/cluster.sh down
    hack/cluster/check-clean.sh
fi
