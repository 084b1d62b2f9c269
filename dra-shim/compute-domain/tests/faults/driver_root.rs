//! A driver root around the workspace's mock of NVML, and a `/proc/devices`.

use std::fs;
use std::path::{Path, PathBuf};

use mock_host::library;

const CLUSTER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

/// One GPU in a clique.
pub(crate) const HEALTHY: &str = "";
/// A driver that has lost its GPU.
pub(crate) const FAILS: &str = r#", "errors": {"nvmlDeviceGetGpuFabricInfoV": 15}"#;
/// Each NVML reading takes two seconds.
pub(crate) const SLOW: &str = r#", "delay_ms": {"nvmlDeviceGetCount_v2": 2000}"#;
/// An NVML reading that never ends.
pub(crate) const HANGS: &str = r#", "hang": ["nvmlDeviceGetGpuFabricInfoV"]"#;

/// Creates the driver root in `root`.
pub(crate) fn lay_out(root: &Path) {
    let lib = root.join("usr/lib64");
    fs::create_dir_all(&lib).unwrap();
    fs::copy(library(), lib.join("libnvidia-ml.so.1")).unwrap();
    fs::write(
        proc_devices(root),
        "Character devices:\n235 nvidia-caps-imex-channels\n",
    )
    .unwrap();
    configure(root, HEALTHY);
}

pub(crate) fn proc_devices(root: &Path) -> PathBuf {
    root.join("proc-devices")
}

/// Sets the driver's state from its next call on: one of the constants above.
pub(crate) fn configure(root: &Path, rest: &str) {
    let config = format!(
        r#"{{"driver_version": "580.82.07", "devices": [{{"name": "NVIDIA GB200", "uuid": "GPU-0",
            "fabric": {{"state": "completed", "cluster_uuid": "{CLUSTER}", "clique_id": 1,
            "health_mask": 426, "health_summary": 1}}}}]{rest}}}"#
    );
    let lib = root.join("usr/lib64");
    fs::write(lib.join("new"), config).unwrap();
    fs::rename(lib.join("new"), lib.join("nvml-mock.json")).unwrap();
}
