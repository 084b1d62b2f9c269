use super::*;

// req: NODE-38
#[test]
fn go_metrics_keep_their_names_and_labels_and_ours_have_another_prefix() {
    let mut registry = Registry::default();
    let types = &["channel", "daemon"];
    let metrics = Metrics::register(&mut registry, "node-a", "compute-domain.nvidia.com", types);
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
    metrics.set_prepared("channel", 1);
    metrics.second_plugin(true);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"nvidia_dra_requests_total{driver="compute-domain.nvidia.com",operation="prepare"} 1"#,
        r#"nvidia_dra_requests_total{driver="compute-domain.nvidia.com",operation="unprepare"} 0"#,
        r#"nvidia_dra_requests_inflight{driver="compute-domain.nvidia.com",operation="prepare"} 0"#,
        r#"nvidia_dra_request_duration_seconds_bucket{le="0.05",driver="compute-domain.nvidia.com",operation="prepare"} 1"#,
        r#"nvidia_dra_prepared_devices{node="node-a",driver="compute-domain.nvidia.com",device_type="channel"} 1"#,
        r#"nvidia_dra_prepared_devices{node="node-a",driver="compute-domain.nvidia.com",device_type="daemon"} 0"#,
        r#"nvidia_dra_node_unprepare_errors_total{driver="compute-domain.nvidia.com",error_type="checkpoint"} 1"#,
        r#"imex_dra_kubelet_calls_total{method="prepare",end="cancelled"} 1"#,
        r#"imex_dra_slice_requests_total{request="create",outcome="slice-request"} 1"#,
        "imex_dra_kubelet_registrations_total 1",
        r#"imex_dra_claim_retries_total{method="unprepare"} 1"#,
        r#"imex_dra_failed_claims_total{method="unprepare",error="checkpoint"} 1"#,
        r#"imex_dra_claim_status_writes_total{outcome="refused"} 1"#,
        "imex_dra_slice_generation 7",
        "imex_dra_second_plugin 1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nis not in\n{text}"
        );
    }
}
