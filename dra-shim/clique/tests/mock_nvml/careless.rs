//! A careless implementation of NVML: `careless.c`, built with the C compiler.

use std::fs;

use crate::foreign::driver_of;
use crate::support::MockDriver;

const CLIQUE: &str = "c1c1c1c1-c1c1-c1c1-c1c1-c1c1c1c1c1c1";

fn careless(flags: &[&str]) -> MockDriver {
    driver_of("careless.c", flags)
}

/// The reported code and reason, with the root replaced.
fn report(flags: &[&str]) -> (&'static str, String) {
    let driver = careless(flags);
    let fabric = driver.fabric();
    let root = driver.root().to_str().unwrap();
    (fabric.code(), fabric.to_string().replace(root, "ROOT"))
}

#[test]
fn an_unusual_library_reports_its_clique() {
    let habits: [&[&str]; 8] = [
        &[],
        &["-DNO_NUL"],
        &["-DREVERSED"],
        &["-DANY_VERSION"],
        &["-DINIT_V2"],
        &["-DCOUNT_V1", "-DHANDLE_V1"],
        &["-DMASK=0xffc001aa", "-DSUMMARY=200"],
        &["-DMASK=0", "-DSUMMARY=0"],
    ];
    for flags in habits {
        assert_eq!(
            report(flags),
            ("clique", format!("clique {CLIQUE}.7")),
            "{flags:?}"
        );
    }
    let reversed = careless(&["-DREVERSED"]).gpus();
    let uuids: Vec<_> = reversed.iter().map(|gpu| gpu.id.to_string()).collect();
    assert_eq!(uuids, ["gpu 0 (GPU-2)", "gpu 1 (GPU-1)"]);
    let unknown = careless(&["-DMASK=0xffc001aa", "-DSUMMARY=200"]).gpus();
    assert_eq!(
        unknown[0].health.unwrap().to_string(),
        "healthy, unknown bits 0xffc00000, summary: unknown value 200 (mask 0xffc001aa)"
    );
}

#[test]
fn each_fault_is_reported_with_the_call_and_nvmls_error_name() {
    let of_both = |what: &str| format!("gpus 0-1: {what} (2 of 2 GPUs without a final state)");
    let rows: [(&[&str], &str, String); 14] = [
        (
            &["-DCOUNT=0"],
            "no-gpus",
            "NVML sees no GPU on this node".to_owned(),
        ),
        (
            &["-DINIT=5"],
            "nvml-error",
            "nvmlInitWithFlags returned NVML_ERROR_ALREADY_INITIALIZED (5)".to_owned(),
        ),
        (
            &["-DINIT=-5"],
            "nvml-error",
            "nvmlInitWithFlags returned NVML error -5".to_owned(),
        ),
        (
            &["-DRETURNS=-5"],
            "gpu-unreadable",
            of_both("unreadable: nvmlDeviceGetName returned NVML error -5"),
        ),
        (
            &["-DLONG_NAME"],
            "gpu-unreadable",
            of_both("unreadable: nvmlDeviceGetName returned text without a terminating NUL"),
        ),
        (
            &["-DLONG_NAME", "-DRETURNS=7"],
            "gpu-unreadable",
            of_both("unreadable: nvmlDeviceGetName returned NVML_ERROR_INSUFFICIENT_SIZE (7)"),
        ),
        (
            &["-DNULL_HANDLE"],
            "gpu-unreadable",
            "gpu 0: unreadable: nvmlDeviceGetHandleByIndex_v2 returned success but wrote no result (1 of 2 GPUs without a final state)".to_owned(),
        ),
        (
            &["-DCOUNT_V1"],
            "nvml-symbol-missing",
            "the library has no nvmlDeviceGetCount_v2".to_owned(),
        ),
        (
            &["-DHANDLE_V1"],
            "nvml-symbol-missing",
            "the library has no nvmlDeviceGetHandleByIndex_v2".to_owned(),
        ),
        (
            &["-DSTATE=77"],
            "fabric-state-unknown",
            of_both("unknown fabric state 77"),
        ),
        (
            &["-DSTATUS=-1"],
            "fabric-failed",
            of_both("fabric registration failed with NVML error -1"),
        ),
        (
            &["-DSTATUS=12345"],
            "fabric-failed",
            of_both("fabric registration failed with NVML error 12345"),
        ),
        (
            &["-DZERO_UUID"],
            "fabric-zero-cluster-uuid",
            "this node is in no clique: the cluster UUID of its 2 registered GPUs is all zero (not a multi-node NVLink system)".to_owned(),
        ),
        (
            &["-DUNDEFINED"],
            "nvml-unloadable",
            "ROOT/usr/lib64/libnvidia-ml.so.1 cannot be loaded: undefined symbol: function_of_no_library".to_owned(),
        ),
    ];
    for (flags, code, reason) in rows {
        assert_eq!(report(flags), (code, reason), "{flags:?}");
    }
}

#[test]
fn a_missing_dependency_is_reported_with_the_loaders_message() {
    let driver = careless(&["-DLIBM", "-lm"]);
    assert_eq!(driver.fabric().code(), "clique");
    let file = driver.root().join("usr/lib64/libnvidia-ml.so.1");
    let mut library = fs::read(file).unwrap();
    let needed = library.windows(9).position(|it| it == b"libm.so.6");
    library[needed.unwrap() + 3] = b'~';
    driver.install(&library);
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "nvml-unloadable");
    let reason = fabric.to_string();
    assert!(reason.contains("lib~.so.6: cannot open"), "{reason}");
}
