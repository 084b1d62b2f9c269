//! Test objects: a node's two directories, its GPUs, and claims to prepare there.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use dra_checkpoint::{BootId, ClaimRef, ClaimStatus, KubeletDevice};
use durable_file::{Dir as _, SimDir};
use gpu_api::{FeatureGates, recorded_devices};
use gpu_inventory::{Fact, Inventory};
use imex_cdi::DriverParams;
use jiff::Timestamp;
use node_claims::{Moment, Prepare, StartError, StartReport};
use nvidia_driver_files::{DriverFiles, DriverVersion, RuntimePaths};
use serde_json::{Value, json};

use crate::{
    GpuRequest, Gpus, HostGpus, HostPaths, NodeClaims, PrepareError, RequestedDevice, WantedGpus,
};

pub(crate) const NODE: &str = "node-a";

/// The two directories of a node, which survive processes.
#[derive(Clone, Default)]
pub(crate) struct Disks {
    pub(crate) checkpoint: SimDir,
    pub(crate) cdi: SimDir,
}

impl Disks {
    pub(crate) fn start(&self) -> NodeClaims {
        self.try_start("boot-1", Some(&mk_host())).unwrap().0
    }

    pub(crate) fn try_start(
        &self,
        boot: &str,
        host: Option<&Arc<HostGpus>>,
    ) -> Result<(NodeClaims, StartReport), StartError> {
        let (checkpoint, cdi) = (self.checkpoint.clone(), self.cdi.clone());
        let boot = BootId::new(boot).unwrap();
        mk_gpus().start(Arc::new(checkpoint), Arc::new(cdi), boot, host)
    }

    pub(crate) fn after_kill(&self) -> Self {
        Self {
            checkpoint: self.checkpoint.after_kill(),
            cdi: self.cdi.after_kill(),
        }
    }

    pub(crate) fn spec_of(&self, uid: &str) -> Option<String> {
        let spec = self.cdi.read(&spec_file(uid)).unwrap();
        spec.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    pub(crate) fn checkpoint_text(&self) -> String {
        let bytes = self.checkpoint.read("checkpoint.json").unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

pub(crate) fn spec_file(uid: &str) -> String {
    format!("k8s.gpu.nvidia.com-claim_{uid}.yaml")
}

pub(crate) fn mk_gpus() -> Gpus {
    Gpus {
        node: NODE.to_owned(),
        gates: FeatureGates::default(),
    }
}

/// Eight H100; as JSON of `cdi-gen gpus`.
pub(crate) fn mk_inventory() -> Inventory {
    serde_json::from_str(include_str!("../../inventory/tests/inventories/h100.json")).unwrap()
}

/// Three H100: GPUs with MIG devices, and one without MIG mode.
pub(crate) fn mk_mig_inventory() -> Inventory {
    let text = include_str!("../../inventory/tests/inventories/h100-mig.json");
    serde_json::from_str(text).unwrap()
}

pub(crate) fn mk_host() -> Arc<HostGpus> {
    mk_host_of(&mk_inventory())
}

pub(crate) fn mk_host_of(inventory: &Inventory) -> Arc<HostGpus> {
    // The capability files of MIG devices.
    static PROC: LazyLock<tempfile::TempDir> = LazyLock::new(mk_proc);
    mk_host_in(inventory, PROC.path())
}

pub(crate) fn mk_host_in(inventory: &Inventory, proc: &Path) -> Arc<HostGpus> {
    let version = "580.82.07".parse::<DriverVersion>().unwrap();
    let files = DriverFiles {
        version,
        files: Vec::new(),
        links: Vec::new(),
        library_dirs: vec!["/usr/lib64".to_owned()],
        problems: Vec::new(),
    };
    let paths = HostPaths {
        proc,
        runtime: RuntimePaths {
            driver_root: "/run/nvidia/driver",
            hook: "/usr/bin/nvidia-cdi-hook",
        },
        params: DriverParams::default(),
    };
    Arc::new(HostGpus::new(inventory, Ok(&files), &paths))
}

fn mk_proc() -> tempfile::TempDir {
    let proc = tempfile::tempdir().unwrap();
    let mut minor = 10;
    for gpu in mk_mig_inventory().gpus {
        let devices = gpu.mig.known().map(|mig| mig.devices.clone());
        for device in devices.into_iter().flatten() {
            let Fact::Known(device) = device else {
                continue;
            };
            let dir = format!(
                "driver/nvidia/capabilities/gpu{}/mig/gi{}",
                gpu.minor.known().unwrap(),
                device.gpu_instance.id
            );
            let compute = format!("{dir}/ci{}", device.compute_instance);
            for dir in [dir, compute] {
                let dir = proc.path().join(dir);
                std::fs::create_dir_all(&dir).unwrap();
                let text = format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n");
                std::fs::write(dir.join("access"), text).unwrap();
                minor += 1;
            }
        }
    }
    proc
}

pub(crate) fn mk_claim(uid: &str) -> ClaimRef {
    ClaimRef {
        uid: uid.to_owned(),
        name: format!("{uid}-name"),
        namespace: "default".to_owned(),
    }
}

/// A claim with these devices, one for each request `gpu-N`.
pub(crate) fn mk_status(devices: &[&str]) -> ClaimStatus {
    mk_status_with(devices, false)
}

pub(crate) fn mk_status_with(devices: &[&str], admin: bool) -> ClaimStatus {
    mk_allocation(devices, |_, result| {
        if admin {
            result["adminAccess"] = json!(true);
        }
    })
}

/// A claim with a share of each of these devices, and a `GpuConfig` with this `sharing` in JSON.
pub(crate) fn mk_shares(devices: &[&str], sharing: &str) -> ClaimStatus {
    let status = mk_allocation(devices, |number, result| {
        result["shareID"] = json!(format!("share-{number}"));
    });
    let config = format!(
        r#"{{"devices":{{"config":[{{"source":"FromClaim","opaque":{{"driver":"gpu.nvidia.com","parameters":
            {{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{sharing}}}}}}}],"#
    );
    let text = status.to_json().replacen(r#"{"devices":{"#, &config, 1);
    ClaimStatus::from_json(&text).unwrap()
}

fn mk_allocation(devices: &[&str], edit: impl Fn(usize, &mut Value)) -> ClaimStatus {
    let results = devices.iter().enumerate().map(|(number, device)| {
        let mut result = json!({
            "request": format!("request-{number}"), "driver": "gpu.nvidia.com",
            "pool": NODE, "device": device,
        });
        edit(number, &mut result);
        result
    });
    let results: Vec<_> = results.collect();
    let status = json!({"allocation": {"devices": {"results": results}}});
    ClaimStatus::from_json(&status.to_string()).unwrap()
}

/// Input to prepare a claim with the settings of its status, also those that this version cannot apply.
pub(crate) fn mk_prepare_with_settings(
    uid: &str,
    status: &ClaimStatus,
    host: &Arc<HostGpus>,
    now: Moment,
) -> Prepare<Gpus> {
    let devices = recorded_devices(status).unwrap().into_iter();
    let devices = devices.map(|it| RequestedDevice {
        name: it.result.device().to_owned(),
        device_type: it.device_type,
        pool: NODE.to_owned(),
        request: it.result.base_request().to_owned(),
        share_id: it.result.share_id().map(str::to_owned),
        admin_access: it.result.admin_access(),
        sharing: it.sharing,
    });
    let request = GpuRequest {
        devices: devices.collect(),
    };
    Prepare {
        claim: mk_claim(uid),
        status: status.clone(),
        request: WantedGpus {
            request,
            host: Ok(Arc::clone(host)),
        },
        facts: Some(Arc::clone(host)),
        now,
    }
}

/// Like the plugin: answers if the claim is prepared, else prepares it.
pub(crate) fn prepare(
    node: &NodeClaims,
    uid: &str,
    status: &ClaimStatus,
) -> Result<Vec<KubeletDevice>, PrepareError> {
    prepare_on(node, uid, status, &mk_host())
}

pub(crate) fn prepare_on(
    node: &NodeClaims,
    uid: &str,
    status: &ClaimStatus,
    host: &Arc<HostGpus>,
) -> Result<Vec<KubeletDevice>, PrepareError> {
    let claim = mk_claim(uid);
    let facts = Some(Arc::clone(host));
    if let Some(devices) = node.already_prepared(&claim, facts.clone())? {
        return Ok(devices);
    }
    node.prepare(mk_prepare(node, uid, status, host, at(0))?)
}

pub(crate) fn mk_prepare(
    node: &NodeClaims,
    uid: &str,
    status: &ClaimStatus,
    host: &Arc<HostGpus>,
    now: Moment,
) -> Result<Prepare<Gpus>, PrepareError> {
    Ok(Prepare {
        claim: mk_claim(uid),
        status: status.clone(),
        request: WantedGpus {
            request: node.devices().request(status)?,
            host: Ok(Arc::clone(host)),
        },
        facts: Some(Arc::clone(host)),
        now,
    })
}

/// A moment at which both clocks agree.
pub(crate) fn at(second: u64) -> Moment {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment {
        wall: Timestamp::from_second(1_700_000_000 + i64::try_from(second).unwrap()).unwrap(),
        steady: *START + Duration::from_secs(second),
    }
}
