//! The files of GPU claims, written by the GPU plugin's own code.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dra_checkpoint::{BootId, ClaimRef, ClaimStatus};
use durable_file::OsDir;
use gpu_api::TimeSlice;
use gpu_inventory::Inventory;
use gpu_node::{
    Effects, Gpus, Hardware, HardwareError, HostGpus, HostPaths, NodeClaims, WantedGpus,
};
use imex_cdi::DriverParams;
use jiff::Timestamp;
use node_claims::{Moment, Prepare};
use nvidia_driver_files::{DriverFiles, RuntimePaths};
use serde_json::{Value, json};

/// The hook of the specs.
pub(crate) const HOOK: &str = "usr/bin/nvidia-cdi-hook";

/// The claims of a node with eight H100.
pub(crate) struct GpuNode {
    claims: NodeClaims,
    host: Arc<HostGpus>,
}

/// GPUs that no claim changes.
#[derive(Debug)]
struct Unchanged;

impl Hardware for Unchanged {
    fn set_time_slice(&self, _: &str, _: TimeSlice) -> Result<(), HardwareError> {
        Ok(())
    }
}

// === impl GpuNode ===

impl GpuNode {
    /// Starts with these two directories.
    pub(crate) fn start(plugin_dir: &Path, cdi: &Path, boot: &str) -> Self {
        let inventory: Inventory = serde_json::from_str(include_str!(
            "../../../../dra-shim/gpu/inventory/tests/inventories/h100.json"
        ))
        .unwrap();
        let files = DriverFiles {
            version: "580.82.07".parse().unwrap(),
            files: vec![],
            links: vec![],
            library_dirs: vec!["/usr/lib64".to_owned()],
            problems: vec![],
        };
        let paths = HostPaths {
            proc: Path::new("/nonexistent"),
            runtime: RuntimePaths {
                driver_root: "/",
                hook: &format!("/{HOOK}"),
            },
            params: DriverParams::default(),
        };
        let host = Arc::new(HostGpus::new(&inventory, Ok(&files), &paths));
        let boot = BootId::new(boot).unwrap();
        let effects = OsDir::create(plugin_dir.join("effects"), 0o750).unwrap();
        let gpus = Gpus {
            node: "node-a".to_owned(),
            gates: "TimeSlicingSettings=true".parse().unwrap(),
            effects: Effects::open(Arc::new(effects), &boot, Arc::new(Unchanged)).unwrap(),
        };
        let (claims, _) = gpus
            .start(
                Arc::new(OsDir::create(plugin_dir, 0o750).unwrap()),
                Arc::new(OsDir::create(cdi, 0o755).unwrap()),
                boot,
                Some(&host),
            )
            .unwrap();
        Self { claims, host }
    }

    /// Prepares a claim with this device.
    pub(crate) fn prepare(&self, uid: &str, device: &str) {
        let input = self.input(uid, device, &Value::Null);
        self.claims.prepare(input).unwrap();
    }

    /// Prepares a claim with this device and a long time slice.
    pub(crate) fn prepare_sliced(&self, uid: &str, device: &str) {
        let parameters = json!({
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
            "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
        });
        let opaque = json!({"driver": "gpu.nvidia.com", "parameters": parameters});
        let config = json!([{"source": "FromClaim", "opaque": opaque}]);
        let input = self.input(uid, device, &config);
        self.claims.prepare(input).unwrap();
    }

    /// Begins to prepare a claim, and aborts that.
    pub(crate) fn abort(&self, uid: &str, device: &str) {
        let input = self.input(uid, device, &Value::Null);
        self.claims.begin(input).unwrap();
        self.unprepare(uid);
    }

    /// Unprepares a claim.
    pub(crate) fn unprepare(&self, uid: &str) {
        self.claims.unprepare(uid, now()).unwrap();
    }

    fn input(&self, uid: &str, device: &str, config: &Value) -> Prepare<Gpus> {
        let results = json!([
            {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-a", "device": device},
        ]);
        let devices = json!({"results": results, "config": config});
        let status = json!({"allocation": {"devices": devices}});
        let status = ClaimStatus::from_json(&status.to_string()).unwrap();
        Prepare {
            claim: ClaimRef {
                uid: uid.to_owned(),
                name: "worker-0-gpu".to_owned(),
                namespace: "default".to_owned(),
            },
            request: WantedGpus {
                request: self.claims.devices().request(&status).unwrap(),
                host: Ok(Arc::clone(&self.host)),
            },
            status,
            facts: Some(Arc::clone(&self.host)),
            now: now(),
        }
    }
}

fn now() -> Moment {
    Moment {
        wall: Timestamp::now(),
        steady: Instant::now(),
    }
}
