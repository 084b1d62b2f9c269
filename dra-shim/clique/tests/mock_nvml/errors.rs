//! What NVML refuses, lacks or takes long over.

use std::time::{Duration, Instant};

use nvml_clique::{Fabric, FabricProbe, NvmlCode, NvmlFailure};

use crate::support::{MockDriver, RACK, devices, member, rack};

#[test]
fn a_missing_symbol_is_named_whichever_it_is_and_nothing_panics() {
    let of_the_library = ["nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceGetCount_v2"];
    for symbol in of_the_library {
        let fabric = MockDriver::lacking(&[symbol], &rack()).fabric();
        assert_eq!(
            fabric,
            Fabric::NvmlFailed(NvmlFailure::SymbolMissing { call: symbol })
        );
    }
    let of_a_gpu = [
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
    ];
    for symbol in of_a_gpu {
        let fabric = MockDriver::lacking(&[symbol], &rack()).fabric();
        assert_eq!(fabric.code(), "gpu-unreadable");
        let reason = fabric.to_string();
        assert!(reason.contains(&format!("has no {symbol}")), "{reason}");
    }
    let neither = ["nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"];
    let fabric = MockDriver::lacking(&neither, &rack()).fabric();
    assert_eq!(fabric.code(), "gpu-unreadable");
    assert!(fabric.hint().contains("newer NVIDIA driver"), "{fabric}");
    // Not called by the probe itself: its absence changes nothing.
    let fabric = MockDriver::lacking(&["nvmlSystemGetDriverVersion"], &rack()).fabric();
    assert_eq!(fabric.code(), "clique");
}

#[test]
fn every_error_code_of_every_call_is_a_value_that_names_both() {
    let driver = MockDriver::new(&rack());
    let calls = [
        ("nvmlInitWithFlags", "nvml-error"),
        ("nvmlDeviceGetCount_v2", "nvml-error"),
        ("nvmlDeviceGetHandleByIndex_v2", "gpu-unreadable"),
        ("nvmlDeviceGetName", "gpu-unreadable"),
        ("nvmlDeviceGetUUID", "gpu-unreadable"),
        ("nvmlDeviceGetGpuFabricInfoV", "gpu-unreadable"),
    ];
    for (call, expected) in calls {
        for code in (1..=30).chain([777, 999]) {
            let rest = format!(r#", "errors": {{"{call}": {code}}}"#);
            driver.configure(&devices(&[member(0, RACK, 5), member(1, RACK, 5)], &rest));
            let fabric = driver.fabric();
            match (call, code) {
                ("nvmlDeviceGetGpuFabricInfoV", 3) => {
                    assert_eq!(fabric.code(), "fabric-not-supported");
                }
                // The form is unknown, not the GPU: the old one is asked.
                ("nvmlDeviceGetGpuFabricInfoV", 13 | 25) => assert_eq!(fabric.code(), "clique"),
                _ => {
                    assert_eq!(fabric.code(), expected, "{call} {code}");
                    let reason = fabric.to_string();
                    let said = format!("{call} returned {}", NvmlCode(code));
                    assert!(reason.contains(&said), "{reason}");
                }
            }
        }
    }
}

#[test]
fn errors_of_the_end_of_a_session_do_not_spoil_what_was_read() {
    let rest = r#", "errors": {"nvmlShutdown": 999, "nvmlSystemGetDriverVersion": 999}"#;
    let driver = MockDriver::new(&devices(&[member(0, RACK, 5)], rest));
    assert_eq!(driver.fabric().code(), "clique");
}

#[test]
fn one_lost_gpu_is_named_and_the_others_are_still_read() {
    let rest = r#", "errors": {"nvmlDeviceGetUUID@1": 15}"#;
    let gpus = [member(0, RACK, 5), member(1, RACK, 5), member(2, RACK, 5)];
    let driver = MockDriver::new(&devices(&gpus, rest));
    assert_eq!(
        driver.fabric().to_string(),
        "gpu 1: fabric state unreadable: nvmlDeviceGetUUID returned NVML_ERROR_GPU_IS_LOST (15) \
         (1 of 3 GPUs not settled)"
    );
    assert!(driver.gpus()[2].clique().is_some());
}

#[test]
fn a_driver_that_is_not_loaded_says_so() {
    let driver = MockDriver::new("this is no configuration");
    let fabric = driver.fabric();
    assert_eq!(
        fabric.to_string(),
        "nvmlInitWithFlags returned NVML_ERROR_DRIVER_NOT_LOADED (9)"
    );
    assert!(fabric.hint().contains("modprobe nvidia"), "{fabric}");
}

#[test]
fn a_file_that_is_no_library_is_told_from_a_missing_one() {
    let driver = MockDriver::without_library();
    assert_eq!(driver.fabric().code(), "nvml-missing");
    driver.install(b"not an ELF file at all, but long enough to have a header: .................");
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "nvml-unloadable");
    assert!(
        fabric.to_string().contains("cannot be loaded: "),
        "{fabric}"
    );
}

#[test]
fn a_slow_library_is_waited_for() {
    let rest = r#", "delay_ms": {"nvmlInitWithFlags": 300}"#;
    let driver = MockDriver::new(&devices(&[member(0, RACK, 5)], rest));
    let began = Instant::now();
    assert!(driver.probe().read().is_ok());
    assert!(began.elapsed() >= Duration::from_millis(300));
}
