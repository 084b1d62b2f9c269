//! Calls that fail or take long.

use std::time::{Duration, Instant};

use nvml_clique::FabricProbe;

use crate::support::{MockDriver, RACK, devices, member};

#[test]
fn an_error_at_the_end_of_a_session_does_not_affect_the_result() {
    let rest = r#", "errors": {"nvmlShutdown": 999}"#;
    let driver = MockDriver::new(&devices(&[member(0, RACK, 5)], rest));
    assert_eq!(driver.fabric().code(), "clique");
}

#[test]
fn a_lost_gpu_is_reported_and_the_others_are_still_read() {
    let rest = r#", "errors": {"nvmlDeviceGetUUID@1": 15}"#;
    let gpus = [member(0, RACK, 5), member(1, RACK, 5), member(2, RACK, 5)];
    let driver = MockDriver::new(&devices(&gpus, rest));
    assert_eq!(
        driver.fabric().to_string(),
        "gpu 1: unreadable: nvmlDeviceGetUUID returned NVML_ERROR_GPU_IS_LOST (15) \
         (1 of 3 GPUs without a final state)"
    );
    assert!(driver.gpus()[2].clique().is_some());
}

#[test]
fn a_driver_that_is_not_loaded_is_reported() {
    let driver = MockDriver::new("this is no configuration");
    let fabric = driver.fabric();
    assert_eq!(
        fabric.to_string(),
        "nvmlInitWithFlags returned NVML_ERROR_DRIVER_NOT_LOADED (9)"
    );
    assert!(fabric.hint().contains("modprobe nvidia"), "{fabric}");
}

#[test]
fn a_file_that_is_not_a_library_differs_from_a_missing_one() {
    let driver = MockDriver::without_library();
    assert_eq!(driver.fabric().code(), "nvml-missing");
    driver.install(b"not an ELF file at all, but long enough to have a header: .................");
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "nvml-unloadable");
    assert!(
        fabric.to_string().ends_with(" is not a shared library"),
        "{fabric}"
    );
    assert!(fabric.hint().contains("remove the other file"), "{fabric}");
}

#[test]
fn a_slow_library_is_waited_for() {
    let rest = r#", "delay_ms": {"nvmlInitWithFlags": 300}"#;
    let driver = MockDriver::new(&devices(&[member(0, RACK, 5)], rest));
    let began = Instant::now();
    assert!(driver.probe().read().is_ok());
    assert!(began.elapsed() >= Duration::from_millis(300));
}
