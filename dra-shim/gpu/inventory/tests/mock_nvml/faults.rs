//! Each call of NVML fails, hangs and aborts on one of eight GPUs: the others are read as they are.

use std::time::Duration;

use gpu_inventory::{Fact, Failure, GpuFacts, Inventory};
use serde_json::{Value, json};

use crate::host::{GIVE_UP, Host, inventory};

/// The calls about a GPU without MIG mode, with a check for the fact of each.
const CALLS: [&str; 17] = [
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetModuleId",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfo",
];

/// The index of the GPU with the fault.
const BAD: usize = 3;

/// The time of a call for a test of a hang. A call of the mock takes microseconds; if the machine is that slow, more
/// calls count as hanging, and the test fails.
const SHORT: Duration = Duration::from_secs(3);

/// Every failure in the facts of a GPU.
fn failures(gpu: &GpuFacts) -> Vec<Failure> {
    let value = serde_json::to_value(gpu).unwrap();
    let failed = value.as_object().unwrap().values();
    failed
        .filter_map(|fact| serde_json::from_value(fact.get("failed")?.clone()).ok())
        .collect()
}

/// Checks that the seven others are as they are, and that the bad GPU still has its identity.
fn assert_seven_are_whole(read: &Inventory, whole: &Inventory, fault: &str) {
    assert_eq!(read.driver, whole.driver, "{fault}");
    assert_eq!(read.gpus.len(), 8, "{fault}");
    for (index, (read, whole)) in read.gpus.iter().zip(&whole.gpus).enumerate() {
        if index == BAD {
            assert_eq!(read.pci, whole.pci, "{fault}");
            assert_eq!(read.minor, whole.minor, "{fault}");
            assert_eq!(read.uuid, whole.uuid, "{fault}");
            assert_eq!(read.index, whole.index, "{fault}");
        } else {
            assert_eq!(read, whole, "{fault}: gpu {index}");
        }
    }
}

fn read_with(faults: &Value, deadline: Duration) -> (Inventory, Inventory) {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    host.inject(faults);
    (host.read(deadline), whole)
}

// req: GPU-1
#[test]
fn a_call_that_fails_on_one_gpu_costs_its_fact() {
    for call in CALLS {
        let (read, whole) = read_with(&json!({"errors": {format!("{call}@{BAD}"): 15}}), GIVE_UP);
        assert_seven_are_whole(&read, &whole, call);
        let failures = failures(&read.gpus[BAD]);
        let most = if call == CALLS[0] { 16 } else { 1 };
        assert!(failures.len() <= most, "{call}: {failures:?}");
        for failure in failures {
            assert_eq!(
                failure.to_string(),
                format!("{call} returned NVML_ERROR_GPU_IS_LOST (15)")
            );
        }
    }
}

// req: GPU-2
#[test]
fn a_call_that_aborts_on_one_gpu_costs_what_nvml_has_of_it() {
    for call in CALLS {
        let (read, whole) = read_with(&json!({"abort": [format!("{call}@{BAD}")]}), GIVE_UP);
        assert_seven_are_whole(&read, &whole, call);
        let reason = "ended its process with SIGABRT";
        assert_reasons(&read, call, reason);
    }
}

// req: GPU-2
#[test]
fn a_call_that_hangs_on_one_gpu_costs_what_nvml_has_of_it() {
    // The time-out of each call is over before the next one begins: several at once.
    std::thread::scope(|scope| {
        for call in CALLS {
            scope.spawn(move || {
                let (read, whole) = read_with(&json!({"hang": [format!("{call}@{BAD}")]}), SHORT);
                assert_seven_are_whole(&read, &whole, call);
                assert_reasons(&read, call, "did not return within 3 s");
            });
        }
    });
}

/// Checks that the failures of the bad GPU name the call.
fn assert_reasons(read: &Inventory, call: &str, reason: &str) {
    let gpu = &read.gpus[BAD];
    let failures = failures(gpu);
    // The fact of an identity may come from /proc instead, and a profile is no fact of its own.
    let has_other_source = ["PciInfo", "UUID", "Minor", "Name", "Handle", "ProfileInfo"];
    if !has_other_source.iter().any(|it| call.contains(it)) {
        let first = failures.iter().find(|failure| failure.call == call);
        assert_eq!(first.unwrap().reason, reason, "{call}: {failures:?}");
    }
    for failure in failures.iter().filter(|failure| failure.reason != reason) {
        assert!(
            failure.reason.starts_with("was not called, because "),
            "{failure}"
        );
        assert!(failure.reason.ends_with(reason), "{failure}");
    }
}

#[test]
fn the_failure_of_a_mig_device_has_the_call_that_ended_the_process() {
    let whole = inventory("h100-mig");
    let host = Host::new(&whole);
    for call in [
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetGpuInstanceById",
        "nvmlDeviceGetComputeInstanceId",
        // After that of the GPU.
        "nvmlDeviceGetUUID@0#2",
        "nvmlGpuInstanceGetInfo",
        "nvmlGpuInstanceGetComputeInstanceById",
        "nvmlComputeInstanceGetInfo_v2",
    ] {
        let (symbol, _) = call.split_once('@').unwrap_or((call, ""));
        host.inject(&json!({"abort": [call]}));
        let read = host.read(GIVE_UP);
        let mig = read.gpus[0].mig.known().unwrap();
        let first = mig.devices[0].failure().unwrap();
        let expected = format!("{symbol} ended its process with SIGABRT");
        assert_eq!(first.to_string(), expected);
    }
}

// req: GPU-2
#[test]
fn a_slow_gpu_is_given_up_after_the_deadline_and_costs_no_other() {
    let slow = SHORT.as_millis() / 4;
    let (read, whole) = read_with(&json!({"delay_ms": {format!("@{BAD}"): slow}}), SHORT);
    assert_seven_are_whole(&read, &whole, "slow");
    let failures = failures(&read.gpus[BAD]);
    assert!(!failures.is_empty());
    for failure in failures {
        let reason = "was not called, because the calls on this GPU before it took more than 3 s";
        assert_eq!(failure.reason, reason);
    }
}

// req: GPU-2
#[test]
fn several_gpus_that_hang_take_the_time_of_one() {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    host.inject(&json!({"hang": ["@0", "@2", "@3", "@7"]}));
    let began = std::time::Instant::now();
    let read = host.read(SHORT);
    let took = began.elapsed();
    assert!(took < SHORT * 4, "{took:?}");
    let hung = |index: &usize| [0, 2, 3, 7].contains(index);
    for (index, (read, whole)) in read.gpus.iter().zip(&whole.gpus).enumerate() {
        if hung(&index) {
            assert_eq!(read.uuid, whole.uuid, "from /proc");
            assert!(read.memory.failure().is_some());
        } else {
            assert_eq!(read, whole, "gpu {index}");
        }
    }
}

#[test]
fn a_library_that_fails_as_a_whole_leaves_what_the_files_have() {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    for (faults, reason) in [
        (
            json!({"errors": {"nvmlInitWithFlags": 9}}),
            "nvmlInitWithFlags returned NVML_ERROR_DRIVER_NOT_LOADED (9)",
        ),
        (
            json!({"abort": ["nvmlInitWithFlags"]}),
            "nvmlInitWithFlags ended its process with SIGABRT",
        ),
        (
            json!({"abort": ["nvmlDeviceGetCount_v2"]}),
            "nvmlDeviceGetCount_v2 ended its process with SIGABRT",
        ),
    ] {
        host.inject(&faults);
        let read = host.read(GIVE_UP);
        assert_eq!(read.driver.gpu_count.failure().unwrap().to_string(), reason);
        assert_eq!(read.driver.module, whole.driver.module);
        assert_eq!(read.gpus.len(), 8);
        for (read, whole) in read.gpus.iter().zip(&whole.gpus) {
            assert_eq!((&read.uuid, &read.minor), (&whole.uuid, &whole.minor));
            assert_eq!(read.index, Fact::Absent);
        }
    }
}
