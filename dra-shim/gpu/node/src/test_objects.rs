//! Test objects: a node's two directories, its GPUs, and claims to prepare there.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use dra_checkpoint::{BootId, ClaimRef, ClaimStatus, KubeletDevice};
use durable_file::sim::Cause;
use durable_file::{Dir as _, SimDir};
use gpu_api::TimeSlice;
use gpu_inventory::{Fact, Inventory};
use imex_cdi::DriverParams;
use jiff::Timestamp;
use node_claims::{Moment, Prepare, StartError, StartReport};
use nvidia_driver_files::{DriverFiles, DriverVersion, RuntimePaths};
use serde_json::{Value, json};

use crate::{
    Effects, Gpus, Hardware, HardwareError, HostGpus, HostPaths, NodeClaims, PrepareError,
    WantedGpus,
};

pub(crate) const NODE: &str = "node-a";

/// The directories and the hardware of a node, which survive processes.
#[derive(Clone, Default)]
pub(crate) struct Disks {
    pub(crate) checkpoint: SimDir,
    pub(crate) cdi: SimDir,
    pub(crate) effects: SimDir,
    pub(crate) gpus: SimGpus,
}

/// The GPUs, which survive processes: a file with the time slice for each GPU that does not have the default.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimGpus {
    pub(crate) state: SimDir,
    /// What the driver answers, if it fails.
    pub(crate) failure: Arc<Mutex<Option<HardwareError>>>,
}

impl SimGpus {
    pub(crate) fn time_slice(&self, gpu: &str) -> TimeSlice {
        let text = self.state.read(gpu).unwrap().unwrap_or_default();
        TimeSlice::of(str::from_utf8(&text).unwrap()).unwrap_or(TimeSlice::Default)
    }

    /// The GPUs without the default.
    pub(crate) fn changed(&self) -> Vec<String> {
        self.state.list().unwrap()
    }
}

impl Hardware for SimGpus {
    fn set_time_slice(&self, gpu: &str, time_slice: TimeSlice) -> Result<(), HardwareError> {
        if let Some(failure) = &*self.failure.lock().unwrap() {
            return Err(failure.clone());
        }
        let set = if time_slice == TimeSlice::Default {
            self.state.remove(gpu)
        } else {
            let text = time_slice.as_str().as_bytes();
            self.state.ensure(gpu, text, 0o600).map(drop)
        };
        set.map_err(|error| HardwareError::Failed {
            reason: error.to_string(),
        })
    }
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
        let gpus = Gpus {
            node: NODE.to_owned(),
            gates: "TimeSlicingSettings=true".parse().unwrap(),
            effects: self.effects(&boot),
        };
        gpus.start(Arc::new(checkpoint), Arc::new(cdi), boot, host)
    }

    fn effects(&self, boot: &BootId) -> Effects {
        let gpus = Arc::new(self.gpus.clone());
        Effects::open(Arc::new(self.effects.clone()), boot, gpus).unwrap()
    }

    pub(crate) fn after_kill(&self) -> Self {
        Self {
            checkpoint: self.checkpoint.after_kill(),
            cdi: self.cdi.after_kill(),
            effects: self.effects.after_kill(),
            gpus: SimGpus {
                state: self.gpus.state.after_kill(),
                failure: Arc::clone(&self.gpus.failure),
            },
        }
    }

    /// The state that a kill left at a random moment since the last one.
    pub(crate) fn after_random_kill(&self, random: &mut fastrand::Rng) -> Self {
        let dirs = [&self.checkpoint, &self.cdi, &self.effects, &self.gpus.state];
        let moments: Vec<_> = dirs.iter().flat_map(|dir| dir.kills()).collect();
        let moment = random.choice(&moments).unwrap();
        let [checkpoint, cdi, effects, gpus] =
            dirs.map(|dir| dir.crashes_with(moment).next().unwrap().dir);
        Self {
            checkpoint,
            cdi,
            effects,
            gpus: SimGpus {
                state: gpus,
                failure: Arc::clone(&self.gpus.failure),
            },
        }
    }

    /// Every state that a crash could leave. A power loss is followed by another boot, in which the CDI directory may
    /// be empty, and GPUs have the default.
    pub(crate) fn every_crash(&self) -> Vec<(String, Self, &'static str)> {
        let dirs = [&self.checkpoint, &self.cdi, &self.effects, &self.gpus.state];
        let mut all = Vec::new();
        for crash in dirs.iter().flat_map(|dir| dir.crashes()) {
            let [checkpoints, cdis, effects, gpus] = dirs.map(|dir| {
                dir.crashes_with(&crash)
                    .map(|it| it.dir)
                    .collect::<Vec<_>>()
            });
            for (checkpoint, cdi, effects) in products(&checkpoints, &cdis, &effects) {
                let found = Self {
                    checkpoint: checkpoint.after_kill(),
                    cdi: cdi.after_kill(),
                    effects: effects.after_kill(),
                    gpus: SimGpus {
                        state: gpus[0].after_kill(),
                        failure: Arc::default(),
                    },
                };
                match crash.cause {
                    Cause::Kill => all.push((crash.to_string(), found, "boot-1")),
                    Cause::PowerLoss => {
                        let found = Self {
                            gpus: SimGpus::default(),
                            ..found
                        };
                        let empty = Self {
                            cdi: SimDir::new(),
                            ..found.after_kill()
                        };
                        all.push((crash.to_string(), found, "boot-2"));
                        all.push((crash.to_string(), empty, "boot-2"));
                    }
                }
            }
        }
        all
    }

    pub(crate) fn spec_of(&self, uid: &str) -> Option<String> {
        let spec = self.cdi.read(&spec_file(uid)).unwrap();
        spec.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// The file names of the journals.
    pub(crate) fn journals(&self) -> Vec<String> {
        let mut names = self.effects.list().unwrap();
        names.retain(|name| name.strip_suffix(".json").is_some());
        names
    }

    pub(crate) fn checkpoint_text(&self) -> String {
        let bytes = self.checkpoint.read("checkpoint.json").unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

pub(crate) fn spec_file(uid: &str) -> String {
    format!("k8s.gpu.nvidia.com-claim_{uid}.yaml")
}

fn products<'a>(
    one: &'a [SimDir],
    two: &'a [SimDir],
    three: &'a [SimDir],
) -> impl Iterator<Item = (&'a SimDir, &'a SimDir, &'a SimDir)> {
    one.iter().flat_map(move |one| {
        two.iter()
            .flat_map(move |two| three.iter().map(move |three| (one, two, three)))
    })
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

/// A claim with these GPUs, and a config with this time slice for all of them.
pub(crate) fn mk_sliced(devices: &[&str], interval: &str) -> ClaimStatus {
    let mut status: serde_json::Value =
        serde_json::from_str(&mk_status(devices).to_json()).unwrap();
    let parameters = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}},
    });
    status["allocation"]["devices"]["config"] = json!([{
        "source": "FromClaim",
        "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters},
    }]);
    ClaimStatus::from_json(&status.to_string()).unwrap()
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
