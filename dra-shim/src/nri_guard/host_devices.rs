//! What the host's CDI specs make of the names that a container asks for. NVIDIA's runtime looks
//! them up itself, after the guard, so that no device shows what they are.
//!
//! ```text
//! names of the container ──► look_up ──► Found: the device nodes of each name that a spec defines
//!                              │
//!                              └──► open: why a name may be more than was read
//! ```
//!
//! Which file wins is not asked: directories and their order are a setting of NVIDIA's runtime.
//! The device nodes of all files that define a name count.
//!
//! A file that is no valid spec defines nothing for runtimes either. One that cannot be read *here*
//! (a link that leads out of the directory, one that is longer than any spec of devices, one of a
//! newer version of CDI) may be read by the runtime: then it is not known what a name is.

mod specs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use imex_cdi::{
    DeviceName, DeviceNode, DirError, DirState, Kind, LoadError, QualifiedName, SpecDir,
};
use imex_runtime::error_chain;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::specs::Specs;

/// The host's CDI directories. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HostDevices {
    /// One reader at a time: however many containers start, and even if the disk hangs.
    specs: Arc<Mutex<Specs>>,
}

/// The devices that are looked up, by kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(BTreeMap<Kind, BTreeSet<DeviceName>>);

/// What the specs say about them.
#[derive(Debug, Default)]
pub(super) struct Found {
    nodes: BTreeMap<QualifiedName, Vec<DeviceNode>>,
    /// Why a name may be more than `nodes` says.
    open: Option<String>,
}

// === impl Names ===

impl Names {
    /// Claims' devices have their channel in their name, and containers of claims are to start
    /// whatever is wrong with the specs of others.
    pub(super) fn add(&mut self, name: &QualifiedName) {
        if *name.kind() != Kind::compute_domain_claim() {
            let devices = self.0.entry(name.kind().clone()).or_default();
            devices.insert(name.device().clone());
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (kind, devices) in &other.0 {
            let known = self.0.entry(kind.clone()).or_default();
            known.extend(devices.iter().cloned());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl Found ===

impl Found {
    fn unknown(reason: String) -> Self {
        Self {
            open: Some(reason),
            ..Self::default()
        }
    }

    /// The device nodes of a device that a spec defines.
    pub(super) fn nodes(&self, name: &QualifiedName) -> Option<Vec<DeviceNode>> {
        self.nodes.get(name).cloned()
    }

    /// Why these names may be more than was read.
    pub(super) fn open(&self, names: &Names) -> Option<&str> {
        self.open.as_deref().filter(|_| !names.is_empty())
    }
}

// === impl HostDevices ===

impl HostDevices {
    pub(crate) fn new(dirs: Vec<PathBuf>) -> Self {
        Self {
            specs: Arc::new(Mutex::new(Specs::new(dirs))),
        }
    }

    /// What the specs say now. Nothing is read where there is no name.
    pub(super) async fn look_up(&self, names: &Names, limit: Duration) -> Found {
        if names.is_empty() {
            return Found::default();
        }
        let (specs, names) = (Arc::clone(&self.specs), names.clone());
        let read = async move {
            // Kept by the reader whose caller has gone.
            let mut specs = specs.lock_owned().await;
            spawn_blocking(move || read(&mut specs, &names)).await
        };
        match timeout(limit, read).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => Found::unknown(error.to_string()),
            Err(_) => {
                let waited = limit.as_secs_f32();
                Found::unknown(format!(
                    "the host's CDI specs were not read within {waited:.1} s"
                ))
            }
        }
    }
}

fn read(specs: &mut Specs, names: &Names) -> Found {
    let registry = match specs.current() {
        Ok(registry) => registry,
        Err(error) => return Found::unknown(format!("{error}: {}", error.hint())),
    };
    let mut found = Found {
        open: registry.dirs().iter().find_map(unlisted),
        ..Found::default()
    };
    for file in registry.files() {
        let spec = match &file.spec {
            Ok(spec) => spec,
            Err(error) => {
                found.open = found.open.or_else(|| readable_elsewhere(error));
                continue;
            }
        };
        let Some(asked) = names.0.get(spec.kind()) else {
            continue;
        };
        let devices = spec.devices().iter();
        for device in devices.filter(|device| asked.contains(&device.name)) {
            let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
            let edits = [spec.container_edits(), &device.container_edits];
            let nodes = edits.into_iter().flat_map(|edits| &edits.device_nodes);
            let known = found.nodes.entry(name).or_default();
            known.extend(nodes.cloned());
        }
    }
    found
}

fn unlisted(dir: &SpecDir) -> Option<String> {
    match &dir.state {
        DirState::Skipped(error @ DirError::Unlistable { .. }) => {
            Some(format!("{} ({})", error_chain(error), error.hint()))
        }
        // Runtimes do not read these either.
        _ => None,
    }
}

/// Why a runtime may have a file that is not read here.
fn readable_elsewhere(error: &LoadError) -> Option<String> {
    let is_newer = error.field() == Some("cdiVersion");
    let is_nothing = match error {
        LoadError::Invalid { .. } => !is_newer,
        // Opening it would do something, or wait: Go's library reads none of them to an end.
        LoadError::NotAFile { .. } => true,
        _ => false,
    };
    (!is_nothing).then(|| format!("{} ({})", error_chain(error), error.hint()))
}

#[cfg(test)]
mod tests;
