//! The API accepts `allocationMode: All`. Prepare refuses it; the pod's event says what to change.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};

// req: NODE-3
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_pod_of_a_domain_with_mode_all_gets_an_event_that_says_what_to_change() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "mode-all")?;
    let domain = TestDomain::create(&cluster, &namespace, "everything", "All")?;
    fixtures::create_pod(&cluster, &namespace, "greedy", 1, Some(&domain))?;

    wait_until(&cluster, "the pod has the refusal as an event", || {
        let events = cluster.events_about(&namespace.name, "greedy")?;
        let refused = events.iter().any(|event| {
            event.starts_with("FailedPrepareDynamicResources")
                && event.contains("allocationMode")
                && event.contains("\"All\"")
                && event.contains("Single")
        });
        ensure!(refused, "its events: {events:#?}");
        Ok(())
    })
}
