#!/usr/bin/env bash
# Runs the cluster tests (hack/cluster-tests) on a real cluster of two nodes
# with the chart installed.
#
#   hack/e2e.sh           all tests, and the commands of the documentation (hack/docs.sh); continues after a failure
#   hack/e2e.sh --must    the tests that every change must pass
#   hack/e2e.sh NAME      the files in hack/cluster-tests/tests with NAME in their name
#   hack/e2e.sh kubelet [FILTER]
#                         Kubernetes' node-level scenarios for DRA drivers, with
#                         drivers of dra-kubelet on the real kubelet (tests/kubelet);
#                         prints a table of the results; needs no chart. FILTER: a part
#                         of the tests' names. With another kubelet, by hand:
#                         IMEX_CLUSTER_KUBELET=$(hack/cluster/other-kubernetes.sh 1.34)/kubelet hack/e2e.sh kubelet
#   hack/e2e.sh controller [FILTER]
#                         compute-domain-controller as a process against the real
#                         API server (tests/controller): killed, paused, requests
#                         refused; without chart; prints a table. By hand:
#                         CREATE_DELETE_PAIRS=10000 hack/e2e.sh controller around_crashes
#   --keep                leaves the cluster up
#
# IMEX_CLUSTER_KUBERNETES=1.34 or 1.37: runs on that Kubernetes, by hand (hack/cluster/other-kubernetes.sh).
# IMEX_CLUSTER_IMAGE=FILE: installs this image, see hack/gpu-nodes.sh. Programs that tests start
# themselves are still dev builds.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

# In this order: tests that restart components or break nodes come last.
must=(
    channel0_reaches_the_pods_of_a_domain
    allocation_mode_all_is_refused
    echo_driver_serves_a_pod
    doctor_finds_a_healthy_node_healthy
    a_node_without_clique_fails_claims_until_it_has_one
    a_second_claim_goes_to_another_node
    who_may_write_what
    a_stopped_host_daemon_is_left_alone
    no_channel_without_a_claim
    a_missing_driver_is_reported_and_retried
    killed_and_restarted_components_recover
    # After this test, nodes accept no new claims for a minute or two: shared devices are draining.
    each_domain_has_a_channel_of_its_own
)
all=(
    the_crd_is_enforced_by_the_api_server
    channel0_reaches_the_pods_of_a_domain
    allocation_mode_all_is_refused
    echo_driver_serves_a_pod
    doctor_finds_a_healthy_node_healthy
    a_node_without_clique_fails_claims_until_it_has_one
    a_node_without_clique_that_is_tainted_is_avoided
    one_bad_gpu_leaves_the_node_its_clique
    a_second_claim_goes_to_another_node
    many_pods_share_the_device_of_a_node
    each_domain_has_a_channel_of_its_own
    the_clique_label_follows_a_partition_that_changes
    the_pods_of_the_example_stay_in_one_clique
    a_group_claim_gives_one_channel_to_pods_on_both_nodes
    a_prepared_device_is_reported_in_its_claim
    a_pod_gets_gpus_by_the_spec_of_its_host
    a_pod_gets_its_gpus_by_claims
    killed_gpu_plugins_give_no_gpu_twice
    time_slices_end_with_their_claims
    an_unhealthy_gpu_is_tainted_until_it_recovers
    a_changed_mig_layout_is_published_and_its_claims_are_told
    gpus_are_reported_or_withdrawn_beside_the_device_plugin
    configs_of_gpus_are_refused_at_creation
    who_may_write_what
    a_service_of_a_host_writes_only_what_is_its_nodes
    the_api_server_accepts_all_that_the_chart_renders
    an_upgrade_brings_the_crd_and_keeps_channels
    an_unprivileged_plugin_prepares_claims
    a_plugin_without_a_pod_prepares_claims
    an_uninstallation_waits_for_the_last_domain
    a_workload_lives_through_install_upgrade_rollback_and_uninstall
    the_chart_is_uninstalled_without_its_image
    the_chart_gives_gpus_alone_and_beside_channels
    claims_of_two_namespaces_share_a_gpu
    objects_of_nvidias_chart_are_left_alone
    gpus_are_refused_beside_nvidias_driver
    a_stopped_host_daemon_is_left_alone
    a_claim_deleted_under_its_running_pod_keeps_the_device
    a_cdi_directory_removed_on_the_host_is_mounted_again
    no_channel_without_a_claim
    a_missing_driver_is_reported_and_retried
    a_damaged_checkpoint_is_rebuilt
    killed_and_restarted_components_recover
    the_guard_survives_its_runtime_and_itself
    the_guard_sees_what_later_plugins_add
    a_node_that_requires_the_guard_starts_nothing_without_it
    without_consumable_capacity_one_claim_has_the_device
    the_plugin_starts_while_the_api_server_is_down
    # Switches the mode temporarily.
    the_mode_is_switched_when_no_domain_is_left
)

# By name only: it needs NVIDIA's plugin.
by_hand=(
    gpus_move_from_nvidias_plugin_and_back
)

# On their own cluster, with driver-managed IMEX.
driver_managed=(
    domains_form_on_imex_daemons_that_run_already
    a_node_without_a_ready_imex_daemon_prepares_no_claim
    a_job_does_not_notice_what_happens_to_imex_daemons
    a_clique_keeps_its_places_whatever_happens_to_its_objects
    an_update_of_imex_daemons_waits_for_jobs
    daemons_of_the_go_driver_go_when_their_domain_is_unused
    imex_daemons_with_certificates_connect_to_each_other_only
)

# The kubelet scenarios of --must; each takes seconds.
must_kubelet=(
    a_passing_fault_costs_the_pod_no_resync
    a_slice_deleted_by_hand_is_back_within_a_second
)

# The driver-managed tests of --must.
must_driver_managed=(
    domains_form_on_imex_daemons_that_run_already
)

# The controller's tests of --must; together they take a minute.
must_controller=(
    a_domain_deleted_while_it_is_being_created_leaves_nothing
    a_domain_that_lost_its_finalizer_leaves_no_template
    a_restored_domain_gets_a_template_of_its_new_uid
    a_template_of_ours_with_other_content_is_repaired
    the_other_controller_takes_over_when_the_leader_is_killed
    a_namespace_with_domains_can_be_deleted
    a_channel_that_somebody_writes_into_a_status_or_a_lease_confirms_nothing
    leases_that_somebody_deletes_are_made_again_and_nothing_new_is_given_meanwhile
)

# inside TEST NODE ARG...: runs a test program of cluster-tests in the namespaces of
# node NODE, or for 0 of the control plane. Paths must not contain quotes.
inside() {
    local test=$1 runner="'$root/hack/cluster.sh', 'exec'"
    [ "$2" = 0 ] || runner+=", '--node', '$2'"
    shift 2
    cargo --config "target.'cfg(all())'.runner=[$runner]" test --locked -p cluster-tests --test "$test" -- --ignored "$@"
}

# print_table SUITE WHAT FILTER...: prints the rows that the suite's tests have written.
print_table() {
    local suite=$1 what=$2
    shift 2
    [ -s "$SCENARIO_TABLE" ] || die "no test ran; no name of a test contains ${*:-anything}. See hack/cluster-tests/tests/$suite"
    printf '\n%s\n| | test | result | seconds | remark |\n|---|---|---|---|---|\n' "$what"
    sort -V "$SCENARIO_TABLE" | awk -F '\t' '{printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5}'
    : >"$SCENARIO_TABLE"
}

# kubelet_suite FILTER...: first runs the tests that can run in parallel (they mostly
# wait for kubelet's timers), then those that restart kubelet or measure.
kubelet_suite() {
    local status=0 version
    inside kubelet 1 --skip alone:: --test-threads=40 "$@" || status=1
    inside kubelet 1 --skip together:: --test-threads=1 "$@" || status=1
    version=$(hack/cluster.sh kubectl get node node1 -o 'jsonpath={.status.nodeInfo.kubeletVersion}')
    print_table kubelet "kubelet $version" "$@"
    return $status
}

# controller_suite FILTER...: runs one test at a time, because a controller acts on the whole cluster.
controller_suite() {
    local status=0
    # Objects of a second controller look like those of the tests' controller.
    [ -z "$(hack/cluster.sh kubectl get deployments -A -o name -l app.kubernetes.io/name=imex-dra)" ] ||
        die "the chart is installed on the kept cluster, and its controller would act on the tests' domains; run hack/cluster.sh down, then this script again"
    cargo build --quiet --locked -p compute-domain-controller
    inside controller 0 --test-threads=1 "$@" || status=1
    print_table controller compute-domain-controller "$@"
    namespaces_are_gone || status=1
    hack/cluster.sh kubectl delete --ignore-not-found --timeout=30s crd computedomains.resource.nvidia.com || status=1
    return $status
}

# Waits until the tests' namespaces are deleted. Kubernetes takes six seconds for an empty namespace, so the tests
# themselves do not wait.
namespaces_are_gone() {
    local deadline=$((SECONDS + 30)) left
    while left=$(hack/cluster.sh kubectl get namespaces -l imex-dra-test=controller -o name) && [ -n "$left" ]; do
        if [ $SECONDS -ge $deadline ]; then
            say "namespaces not deleted after 30 s: $left"
            return 1
        fi
        sleep 0.5
    done
}

# chart_tests MODE NAME...: runs tests with the chart in this mode. One by one, because cargo would run them in
# alphabetical order.
chart_tests() {
    local mode=$1 name
    shift
    hack/install.sh --mode "$mode"
    cargo build --quiet --locked -p dra-kubelet --example echo --example lamps
    cargo build --quiet --locked -p cdi-gen -p gpu-plugin
    for name in "$@"; do
        if ! cargo test --locked -p cluster-tests --test chart -- --ignored --test-threads=1 --nocapture "$name::"; then
            failed "$name"
            # The failed test may have left ComputeDomains, which would refuse the installation, or a half-installed release,
            # which would fail later tests.
            hack/cluster.sh kubectl delete computedomains --all --all-namespaces --timeout=60s || true
            hack/cluster.sh helm uninstall imex-dra --namespace imex-dra --no-hooks --wait --timeout 2m || true
            hack/install.sh --mode "$mode"
        fi
    done
}

# failed WHAT: if all tests run, continues with the next; otherwise exits.
failed() {
    [ "$suite" = all ] || exit 1
    say "FAILED: $1"
    failures+=("$1")
}

keep=
suite=all
failures=()
tests=("${all[@]}")
driver_managed_tests=("${driver_managed[@]}")
filters=()
nodes=2
for argument in "$@"; do
    case $argument in
        --keep) keep=1 ;;
        --must) tests=("${must[@]}") driver_managed_tests=("${must_driver_managed[@]}") suite=must ;;
        kubelet) tests=() driver_managed_tests=() suite=kubelet ;;
        controller) tests=() driver_managed_tests=() suite=controller nodes=1 ;;
        -*) die "unknown argument $argument; usage: hack/e2e.sh [--must|NAME|kubelet [FILTER]|controller [FILTER]] [--keep]" ;;
        *)
            case $suite in
                kubelet | controller)
                    filters+=("$argument")
                    continue
                    ;;
            esac
            suite=named
            mapfile -t tests < <(printf '%s\n' "${all[@]}" "${by_hand[@]}" | grep -F -- "$argument" || true)
            mapfile -t driver_managed_tests < <(printf '%s\n' "${driver_managed[@]}" | grep -F -- "$argument" || true)
            [ $((${#tests[@]} + ${#driver_managed_tests[@]})) -gt 0 ] ||
                die "no cluster test has $argument in its name; there are: ${all[*]} ${by_hand[*]} ${driver_managed[*]}"
            ;;
    esac
done
for file in hack/cluster-tests/tests/*.rs; do
    name=$(basename "$file" .rs)
    [ "$name" != main ] || continue
    [[ " ${all[*]} ${by_hand[*]} ${driver_managed[*]} " == *" $name "* ]] || die "$file is not listed in hack/e2e.sh"
    # Otherwise its name would select no test, and nothing would fail.
    grep -qx "mod $name;" hack/cluster-tests/tests/main.rs || die "$file is not a module of hack/cluster-tests/tests/main.rs"
done
for name in "${must_kubelet[@]}" "${must_controller[@]}"; do
    grep -rqF "fn $name()" hack/cluster-tests/tests/kubelet hack/cluster-tests/tests/controller ||
        die "there is no test $name, which must_kubelet or must_controller in hack/e2e.sh names"
done

# The file to which run_scenario appends rows.
SCENARIO_TABLE=$(mktemp)
export SCENARIO_TABLE
trap 'rm -f "$SCENARIO_TABLE"; [ -n "$keep" ] || hack/cluster.sh down' EXIT
hack/cluster.sh up --nodes "$nodes"
# Before the chart is installed: its controller would be a second one.
case $suite in
    controller | all) controller_suite "${filters[@]}" || failed "the controller's suite" ;;
    must) controller_suite "${must_controller[@]}" ;;
esac
[ ${#tests[@]} = 0 ] || chart_tests hostManaged "${tests[@]}"
case $suite in
    kubelet | all) kubelet_suite "${filters[@]}" || failed "the kubelet suite" ;;
    must) kubelet_suite "${must_kubelet[@]}" ;;
esac
if [ ${#driver_managed_tests[@]} -gt 0 ]; then
    # On a new cluster: the mode cannot change while objects of other tests exist.
    if [ ${#tests[@]} -gt 0 ]; then hack/cluster.sh down && hack/cluster.sh up --nodes "$nodes"; fi
    chart_tests driverManaged "${driver_managed_tests[@]}"
fi
if [ "$suite" = all ]; then
    hack/cluster.sh down
    hack/docs.sh || failed "the documentation"
    hack/cluster/check-clean.sh || failed "the cleanup of the cluster"
    [ ${#failures[@]} = 0 ] || die "failed: ${failures[*]}"
fi
