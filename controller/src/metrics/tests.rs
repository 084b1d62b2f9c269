use compute_domain_api::crd::{ComputeDomain, ComputeDomainStatus};
use compute_domain_core::{Domain, Index, MemberCounts};
use daemon_runtime::{Events, metrics_table_differences};
use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::fake_api::FakeApi;
use crate::run::register_metrics;
use crate::testing::scrape;

fn mk_domain(uid: &str, state: Option<ComputeDomainState>) -> Domain {
    let mut domain = ComputeDomain::default();
    domain.metadata.uid = Some(uid.into());
    domain.metadata.name = Some(uid.into());
    domain.metadata.namespace = Some("ns".into());
    domain.status = state.map(|status| ComputeDomainStatus {
        status,
        ..ComputeDomainStatus::default()
    });
    Domain::new(domain).unwrap()
}

// req: CD-20
#[test]
fn domains_are_counted_by_status_until_they_are_deleted() {
    let index = SharedIndex::default();
    let mut registry = Registry::default();
    let _metrics = Metrics::new(&mut registry, index.clone());
    let ready = Some(ComputeDomainState::Ready);
    for domain in [
        mk_domain("a", ready),
        mk_domain("b", ready),
        mk_domain("c", Some(ComputeDomainState::NotReady)),
        mk_domain("d", None),
    ] {
        index.lock().apply_domain(domain);
    }
    let count = |state: &str| {
        let text = scrape(&registry);
        let series = format!("nvidia_dra_compute_domain_info{{status=\"{state}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap().to_owned()
    };
    assert_eq!(count("Ready"), "2");
    assert_eq!(
        count("NotReady"),
        "1",
        "one without a status counts as neither"
    );
    index.lock().remove_domain("a");
    assert_eq!(count("Ready"), "1");
}

#[test]
fn channels_are_counted_once_their_leases_are_listed() {
    let index = SharedIndex::new(Index::new(Some(1..=3)));
    let mut registry = Registry::default();
    Metrics::register_channels(&mut registry, index.clone(), Timestamp::now);
    let gauges = || {
        let text = scrape(&registry);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let expected = |used, free, cooling| {
        [("used", used), ("free", free), ("cooling", cooling)]
            .map(|(state, count)| format!("imex_dra_channels{{state=\"{state}\"}} {count}"))
    };
    assert_eq!(gauges(), expected(0, 0, 0));
    index.lock().begin_leases();
    index.lock().finish_leases();
    assert_eq!(gauges(), expected(0, 3, 0));
}

#[test]
fn names_and_labels_are_what_dashboards_expect() {
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry, SharedIndex::default());
    metrics.reconciled(Duration::from_millis(7));
    metrics.failed("500");
    metrics.failed("500");
    metrics.set_queue_depth(3);
    metrics.set_leader(true);
    metrics.set_cliques(2, 5);
    let text = scrape(&registry);
    for line in [
        "imex_dra_reconcile_duration_seconds_count 1",
        "imex_dra_reconcile_duration_seconds_bucket{le=\"0.005\"} 0",
        "imex_dra_reconcile_duration_seconds_bucket{le=\"0.02\"} 1",
        "imex_dra_reconcile_errors_total{code=\"500\"} 2",
        "imex_dra_queue_depth 3",
        "imex_dra_leader 1",
        "imex_dra_shared_cliques 2",
        "imex_dra_split_domains 5",
        "nvidia_dra_compute_domain_info{status=\"Ready\"} 0",
        "nvidia_dra_compute_domain_info{status=\"NotReady\"} 0",
    ] {
        assert!(
            text.lines().any(|it| it == line),
            "{line} is not in\n{text}"
        );
    }
    metrics.set_leader(false);
    assert!(scrape(&registry).contains("\nimex_dra_leader 0\n"));
}

#[tokio::test]
async fn the_reference_has_every_metric_and_no_other() {
    let events = Events::new(FakeApi::new().client(), "test", "pod-1");
    let (registry, metrics) = register_metrics(&SharedIndex::default(), true, true, &events);
    // A family is served once it has a series.
    metrics.controller.failed("500");
    metrics.cliques.labelled("written");
    let (members, _) = metrics.driver_managed.unwrap();
    members.wrote("written");
    members.replaced("drained");
    members.set_counts(&MemberCounts::default());
    let page = include_str!("../../../docs/reference/controller-metrics.md");
    let differences = metrics_table_differences(registry, page);
    assert_eq!(differences, Vec::<String>::new());
}
