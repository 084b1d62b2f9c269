//! The states of GPUs, and the resulting state of the node.

use nvml_clique::{GpuFabricState, HealthSummary, NvmlCode};

use crate::support::{MockDriver, OTHER_RACK, RACK, device, devices, member, rack};

#[test]
fn a_node_in_a_clique_reports_it_and_its_gpus() {
    let driver = MockDriver::new(&rack());
    let clique = driver.fabric().clique().unwrap();
    assert_eq!(clique.to_string(), format!("{RACK}.5"));
    let gpus = driver.gpus();
    let names: Vec<_> = gpus.iter().map(|gpu| gpu.name.as_deref()).collect();
    assert_eq!(names, [Some("NVIDIA GB200"); 2]);
    assert_eq!(gpus[1].id.to_string(), "gpu 1 (GPU-1)");
}

#[test]
fn every_fabric_state_has_its_own_code() {
    let table = [
        (r#""state": "not-supported""#, "fabric-not-supported"),
        (r#""state": "not-started""#, "fabric-not-started"),
        (r#""state": "in-progress""#, "fabric-in-progress"),
        (r#""state": "completed""#, "fabric-zero-cluster-uuid"),
        (r#""state": "completed", "status": 999"#, "fabric-failed"),
        (r#""state": 4"#, "fabric-state-unknown"),
    ];
    for (fabric, code) in table {
        let driver = MockDriver::new(&devices(&[device(0, fabric)], ""));
        assert_eq!(driver.fabric().code(), code, "{fabric}");
    }
    let pcie = r#"{"name": "NVIDIA L4", "uuid": "GPU-0"}"#.to_owned();
    let driver = MockDriver::new(&devices(&[pcie], ""));
    assert_eq!(driver.fabric().code(), "fabric-not-supported");
}

/// An H200 without a fabric, with driver 580.159.04: the call succeeds in each of the three versions, with a
/// struct of 40, 36 or 28 bytes that is zero after the version word.
#[test]
fn a_gpu_with_all_zero_data_supports_no_fabric() {
    for version in 1..=3 {
        let h200 =
            r#"{"name": "NVIDIA H200", "uuid": "GPU-0", "fabric": {"state": "not-supported"}}"#;
        let version = format!(r#", "fabric_info_version": {version}"#);
        let driver = MockDriver::new(&devices(&[h200.to_owned()], &version));
        assert_eq!(driver.gpus()[0].fabric, GpuFabricState::NotSupported);
        assert_eq!(
            driver.fabric().to_string(),
            "this node is in no clique: none of its 1 GPUs supports an NVLink fabric"
        );
    }
}

#[test]
fn a_failed_registration_keeps_its_status() {
    let failed = device(0, r#""state": "completed", "status": 18"#);
    let driver = MockDriver::new(&devices(&[failed], ""));
    assert_eq!(
        driver.gpus()[0].fabric,
        GpuFabricState::Failed {
            status: NvmlCode(18)
        }
    );
}

#[test]
fn gpus_that_disagree_are_described() {
    let gpus = [member(0, RACK, 5), member(1, OTHER_RACK, 5)];
    let driver = MockDriver::new(&devices(&gpus, ""));
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "gpus-disagree");
    let reason = fabric.to_string();
    assert!(
        reason.contains(RACK) && reason.contains(OTHER_RACK),
        "{reason}"
    );
}

#[test]
fn gpus_without_a_clique_do_not_disagree() {
    let gpus = [
        device(0, r#""state": "not-supported""#),
        member(1, RACK, 0),
        device(2, r#""state": "completed", "clique_id": 77"#),
        r#"{"name": "NVIDIA L4", "uuid": "GPU-3"}"#.to_owned(),
    ];
    let driver = MockDriver::new(&devices(&gpus, ""));
    let clique = driver.fabric().clique().unwrap();
    assert_eq!(clique.to_string(), format!("{RACK}.0"));
}

#[test]
fn display_adapters_are_ignored() {
    let gpus = [
        r#"{"name": "DGX Display", "uuid": "GPU-0", "fabric": {"state": "not-started"}}"#,
        r#"{"name": "NVIDIA DGX Display", "uuid": "GPU-1"}"#,
    ]
    .map(str::to_owned);
    let only_displays = MockDriver::new(&devices(&gpus, ""));
    assert_eq!(only_displays.fabric().code(), "no-gpus");
    let reason = only_displays.fabric().to_string();
    assert!(
        reason.contains("NVML sees only 2 display adapters"),
        "{reason}"
    );
    let [one, two] = gpus;
    let driver = MockDriver::new(&devices(&[one, two, member(2, RACK, 1)], ""));
    assert_eq!(driver.fabric().code(), "clique");
}

#[test]
fn no_gpu_at_all_is_described() {
    let driver = MockDriver::new(&devices(&[], ""));
    assert_eq!(driver.fabric().code(), "no-gpus");
}

#[test]
fn a_degraded_gpu_belongs_to_the_clique_and_its_problems_are_reported() {
    let sick = r#""state": "completed", "cluster_uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                  "clique_id": 5, "health_mask": 1193, "health_summary": 3"#;
    let driver = MockDriver::new(&devices(&[member(0, RACK, 5), device(1, sick)], ""));
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "clique-degraded");
    let reason = fabric.to_string();
    assert!(
        reason.ends_with(
            "gpu 1 (GPU-1) is degraded: degraded bandwidth, \
             incorrect configuration: no partition, summary: limited capacity (mask 0x4a9)"
        ),
        "{reason}"
    );
}

// req: NODE-44
#[test]
fn an_older_driver_gets_the_older_calls_and_reports_the_same_clique() {
    for (newest, mask, summary) in [
        (3, Some(426), Some(HealthSummary::Healthy)),
        (2, Some(426), None),
        (1, None, None),
    ] {
        let rest = format!(r#", "fabric_info_version": {newest}"#);
        let driver = MockDriver::new(&devices(&[member(0, RACK, 5)], &rest));
        assert_eq!(driver.fabric().code(), "clique", "version {newest}");
        let health = driver.gpus()[0].health;
        assert_eq!(health.map(|it| it.mask), mask, "version {newest}");
        assert_eq!(health.and_then(|it| it.summary), summary);
    }
}

// req: NODE-44
#[test]
fn a_library_without_the_versioned_call_gets_the_unversioned_one() {
    let driver = MockDriver::lacking(&["nvmlDeviceGetGpuFabricInfoV"], &rack());
    assert_eq!(driver.fabric().code(), "clique");
    assert_eq!(driver.gpus()[0].health, None);
}

#[test]
fn not_supported_from_the_versioned_call_alone_does_not_count() {
    let refused = |codes: &str| {
        let rest = format!(r#", "errors": {{{codes}}}"#);
        MockDriver::new(&devices(&[member(0, RACK, 5)], &rest)).fabric()
    };
    let versioned = r#""nvmlDeviceGetGpuFabricInfoV": 3"#;
    assert_eq!(refused(versioned).code(), "clique");
    for code in [2, 3, 13, 25] {
        let both = format!(r#"{versioned}, "nvmlDeviceGetGpuFabricInfo": {code}"#);
        assert_eq!(refused(&both).code(), "fabric-not-supported", "{code}");
    }
    let broken = format!(r#"{versioned}, "nvmlDeviceGetGpuFabricInfo": 15"#);
    assert_eq!(refused(&broken).code(), "gpu-unreadable");
    let config = devices(
        &[member(0, RACK, 5)],
        &format!(r#", "errors": {{{versioned}}}"#),
    );
    let driver = MockDriver::lacking(&["nvmlDeviceGetGpuFabricInfo"], &config);
    assert_eq!(driver.fabric().code(), "fabric-not-supported");
}
