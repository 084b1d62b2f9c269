use std::fs;

use daemon_runtime::{Events, metrics_table_differences};
use kube::Client;
use nvml_clique::GpuRef;

use super::*;
use crate::run::register_metrics;

// req: NODE-38
#[test]
fn go_metrics_keep_their_names_and_labels_and_ours_have_another_prefix() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, "node-a");
    let closed = ClaimError::retry("closed").with_code("checkpoint");
    let ms = Duration::from_millis(1);
    metrics.attempt_started(Method::Prepare);
    metrics.attempt_finished(Method::Prepare, Ok(()), ms);
    metrics.attempt_started(Method::Unprepare);
    metrics.attempt_finished(Method::Unprepare, Err(&closed), ms);
    metrics.retried(Method::Unprepare);
    metrics.claim_failed(Method::Unprepare, &closed);
    metrics.call_finished(Method::Prepare, CallOutcome::Cancelled);
    metrics.status_written("refused");
    metrics.slice_request("create", Err("slice-request"));
    metrics.publication_changed(&Publication::Published {
        slices: Vec::new(),
        generation: 7,
        dropped: Vec::new(),
    });
    metrics.registration_changed(&Registration::Registered);
    metrics.registration_changed(&Registration::Pending);
    metrics.prepared_channels(1);
    let gpu = |index, fabric| Gpu {
        id: GpuRef { index, uuid: None },
        name: None,
        fabric,
        health: None,
    };
    metrics.gpus(&[gpu(0, GpuFabricState::NotStarted)]);
    metrics.gpus(&[
        gpu(0, GpuFabricState::InProgress),
        gpu(1, GpuFabricState::InProgress),
    ]);
    metrics.second_plugin(true);
    metrics.nri_connected(true);
    metrics.guarded("create", "told");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"nvidia_dra_requests_total{driver="compute-domain.nvidia.com",operation="prepare"} 1"#,
        r#"nvidia_dra_requests_total{driver="compute-domain.nvidia.com",operation="unprepare"} 0"#,
        r#"nvidia_dra_requests_inflight{driver="compute-domain.nvidia.com",operation="prepare"} 0"#,
        r#"nvidia_dra_request_duration_seconds_bucket{le="0.05",driver="compute-domain.nvidia.com",operation="prepare"} 1"#,
        r#"nvidia_dra_prepared_devices{node="node-a",driver="compute-domain.nvidia.com",device_type="channel"} 1"#,
        r#"nvidia_dra_node_unprepare_errors_total{driver="compute-domain.nvidia.com",error_type="checkpoint"} 1"#,
        r#"imex_dra_kubelet_calls_total{method="prepare",end="cancelled"} 1"#,
        r#"imex_dra_slice_requests_total{request="create",outcome="slice-request"} 1"#,
        "imex_dra_kubelet_registrations_total 1",
        r#"imex_dra_claim_retries_total{method="unprepare"} 1"#,
        r#"imex_dra_failed_claims_total{method="unprepare",error="checkpoint"} 1"#,
        r#"imex_dra_claim_status_writes_total{outcome="refused"} 1"#,
        "imex_dra_slice_generation 7",
        r#"imex_dra_gpus{state="in-progress"} 2"#,
        r#"imex_dra_gpus{state="not-started"} 0"#,
        "imex_dra_second_plugin 1",
        "imex_dra_nri_connected 1",
        r#"imex_dra_guarded_containers_total{moment="create",outcome="told"} 1"#,
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nis not in\n{text}"
        );
    }
}

#[tokio::test]
async fn the_page_has_every_metric_and_no_other() {
    let nobody = tower::service_fn(|_| async {
        let answer = http::Response::builder().status(404);
        answer.body(kube::client::Body::empty())
    });
    let events = Events::new(Client::new(nobody, "default"), "test", "node-a");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(dra_checkpoint::CHECKPOINT_FILE), "{}").unwrap();
    let (registry, metrics) = register_metrics("node-a", directory.path(), &events);
    give_each_a_series(&metrics);
    let page = include_str!("../../../../docs/reference/plugin-metrics.md");
    let differences = metrics_table_differences(registry, page);
    assert_eq!(differences, Vec::<String>::new());
    let gpus = page.lines().find(|it| it.contains("imex_dra_gpus{"));
    for state in GpuFabricState::CODES {
        assert!(gpus.unwrap().contains(&format!("`{state}`")), "{state}");
    }
}

/// A family is served once it has a series. No `..` in the pattern: new families must be added here.
fn give_each_a_series(metrics: &Metrics) {
    let Metrics {
        requests: _,
        durations: _,
        inflight: _,
        prepare_errors,
        unprepare_errors,
        prepared: _,
        calls,
        retries,
        failed_claims,
        status_writes,
        slices,
        generation: _,
        registrations: _,
        gpus,
        second_plugin: _,
        nri_connected: _,
        guarded,
    } = metrics;
    for errors in [prepare_errors, unprepare_errors] {
        let (driver, error_type) = (DRIVER_NAME, "any");
        drop(errors.get_or_create(&Failure { driver, error_type }));
    }
    let (method, end, error, outcome) = ("any", "any", "any", "any");
    drop(calls.get_or_create(&End { method, end }));
    drop(retries.get_or_create(&Retried { method }));
    drop(failed_claims.get_or_create(&Failed { method, error }));
    drop(status_writes.get_or_create(&StatusWrite { outcome }));
    drop(slices.get_or_create(&Slice {
        request: "any",
        outcome,
    }));
    drop(gpus.get_or_create(&GpuState { state: "any" }));
    drop(guarded.get_or_create(&Guarded {
        moment: "any",
        outcome,
    }));
}
