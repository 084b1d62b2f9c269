//! A library that returns success and a wrong result, which must be detected.

use nvml_clique::{Fabric, FabricProbe, GpuFabricState, NvmlFailure};

use crate::support::{MockDriver, RACK, devices, member};

fn misbehaving(what: &str) -> MockDriver {
    let gpus = [member(0, RACK, 5), member(1, RACK, 5)];
    MockDriver::new(&devices(&gpus, &format!(r#", "misbehaves": {{{what}}}"#)))
}

#[test]
fn an_implausible_count_is_rejected_before_it_is_used() {
    for count in [1025, i32::MAX.cast_unsigned(), u32::MAX - 1] {
        let config = devices(
            &[member(0, RACK, 5)],
            &format!(r#", "device_count": {count}"#),
        );
        let call = "nvmlDeviceGetCount_v2";
        assert_eq!(
            MockDriver::new(&config).fabric(),
            Fabric::NvmlFailed(NvmlFailure::TooManyGpus { call, count })
        );
    }
}

#[test]
fn missing_gpus_are_unreadable_and_the_others_are_read() {
    let config = devices(&[member(0, RACK, 5)], r#", "device_count": 1024"#);
    let driver = MockDriver::new(&config);
    let gpus = driver.gpus();
    assert_eq!(gpus.len(), 1024);
    assert!(gpus[0].clique().is_some());
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "gpu-unreadable");
    assert_eq!(fabric.clique(), None);
    assert!(
        fabric
            .to_string()
            .ends_with("(1023 of 1024 GPUs without a final state)")
    );
}

#[test]
fn a_gpu_without_written_data_is_unreadable_and_not_unsupported() {
    for call in [
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetHandleByIndex_v2",
    ] {
        let driver = misbehaving(&format!(r#""{call}@1": "writes-nothing""#));
        let reason = driver.fabric().to_string();
        assert!(
            reason.contains(&format!("{call} returned success but wrote no result")),
            "{reason}"
        );
        assert_eq!(driver.fabric().clique(), None);
        assert!(driver.gpus()[0].clique().is_some(), "the other one is read");
    }
}

// req: NODE-45
#[test]
fn a_struct_of_all_ones_is_an_unknown_state_without_a_clique() {
    let driver = misbehaving(r#""nvmlDeviceGetGpuFabricInfoV": "garbage""#);
    for gpu in driver.gpus() {
        assert_eq!(gpu.fabric, GpuFabricState::Unrecognised(255));
        assert_eq!((gpu.clique(), gpu.health), (None, None));
    }
}

#[test]
fn text_is_not_read_past_its_buffer() {
    for call in ["nvmlDeviceGetName", "nvmlDeviceGetUUID"] {
        for how in ["unterminated", "overrun", "garbage"] {
            let driver = misbehaving(&format!(r#""{call}@0": "{how}""#));
            assert_eq!(
                driver.gpus()[0].fabric,
                GpuFabricState::Unreadable(NvmlFailure::Unterminated { call }),
                "{how}"
            );
        }
    }
}

// req: NODE-45
#[test]
fn a_call_that_writes_past_its_struct_does_no_harm() {
    let every = [
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetGpuFabricInfoV",
    ]
    .map(|call| format!(r#""{call}": "overrun""#));
    let driver = misbehaving(&every.join(", "));
    for _ in 0..50 {
        assert_eq!(driver.fabric().code(), "clique");
    }
}

#[test]
fn a_library_that_ignores_the_version_word_is_read_correctly() {
    let driver = misbehaving(r#""nvmlDeviceGetGpuFabricInfoV": "ignores-version""#);
    assert_eq!(driver.fabric().code(), "clique");
    let health = driver.gpus()[0].health.unwrap();
    assert_eq!(health.mask, 426);
    assert!(driver.probe().read().is_ok());
}
