//! One look at a host's GPUs.

use std::path::{Path, PathBuf};

use nvml_wrapper::bitmasks::InitFlags;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::clique::ClusterUuid;
use crate::ffi::{self, FabricInfo};
use crate::gpu::{FabricState, Gpu, GpuRef};
use crate::health::{Health, HealthSummary};
use crate::nvml::{NvmlCode, NvmlFailure};
use crate::root::{DriverRoot, NotFound};

/// Reads the fabric state of every GPU once. [`NvmlProbe`] is the real one;
/// tests of callers bring their own.
pub trait FabricProbe: Send + 'static {
    /// The GPUs of this host in NVML's order, display adapters left out.
    ///
    /// May block for seconds, and for ever if the driver hangs: call it
    /// through [`FabricWatch`](crate::FabricWatch) from anything that matters.
    fn read(&self) -> Result<Vec<Gpu>, ProbeError>;
}

/// Reads through the `libnvidia-ml.so.1` of a driver root.
///
/// Each read finds and loads the library anew and ends its session, so a
/// driver that appears late, is replaced or vanishes is noticed.
#[derive(Debug, Clone)]
pub struct NvmlProbe {
    root: DriverRoot,
}

/// Why a read found out nothing about any GPU.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// There is no library to ask.
    #[error(transparent)]
    NoLibrary(#[from] NoLibrary),
    /// The library failed as a whole.
    #[error(transparent)]
    Nvml(#[from] NvmlFailure),
}

/// Why there is no usable `libnvidia-ml.so.1`.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLibrary {
    /// It is not below the driver root.
    #[error(transparent)]
    Missing(#[from] NotFound),
    /// It is there and the dynamic loader refuses it.
    #[error("{} cannot be loaded: {reason}", path.display())]
    Unloadable {
        /// The file, all links resolved.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
}

const INIT: &str = "nvmlInitWithFlags";
const SHUTDOWN: &str = "nvmlShutdown";
const COUNT: &str = "nvmlDeviceGetCount_v2";
const HANDLE: &str = "nvmlDeviceGetHandleByIndex_v2";
const NAME: &str = "nvmlDeviceGetName";
const UUID: &str = "nvmlDeviceGetUUID";

/// Display adapters of DGX stations: enumerated by NVML, never part of a fabric.
const DISPLAY_ADAPTERS: [&str; 2] = ["DGX Display", "NVIDIA DGX Display"];

// === impl NvmlProbe ===

impl NvmlProbe {
    /// A probe for the driver below `root`.
    pub fn new(root: DriverRoot) -> Self {
        Self { root }
    }
}

impl FabricProbe for NvmlProbe {
    fn read(&self) -> Result<Vec<Gpu>, ProbeError> {
        let path = self.root.library().map_err(NoLibrary::from)?;
        // Held until the session has ended: the library stays the one that
        // was checked, and is initialised once per read.
        let library = ffi::load(&path).map_err(|e| unloadable(&path, &e))?;
        if library.nvmlShutdown.is_err() {
            // The wrapper's Drop would panic.
            return Err(NvmlFailure::SymbolMissing { call: SHUTDOWN }.into());
        }
        let nvml = Nvml::builder()
            .lib_path(path.as_os_str())
            // A node whose GPUs are all bound to vfio still has an answer.
            .flags(InitFlags::NO_GPUS)
            .init()
            .map_err(|e| NvmlFailure::of_wrapper(INIT, e))?;
        Ok(gpus(&nvml)?)
    }
}

fn unloadable(path: &Path, error: &NvmlError) -> NoLibrary {
    let text = match error {
        NvmlError::LibloadingError(error) => error.to_string(),
        error => error.to_string(),
    };
    let prefix = format!("{}: ", path.display());
    NoLibrary::Unloadable {
        path: path.to_owned(),
        reason: text.strip_prefix(&prefix).unwrap_or(&text).to_owned(),
    }
}

fn gpus(nvml: &Nvml) -> Result<Vec<Gpu>, NvmlFailure> {
    let count = nvml
        .device_count()
        .map_err(|e| NvmlFailure::of_wrapper(COUNT, e))?;
    Ok((0..count).filter_map(|index| gpu(nvml, index)).collect())
}

/// `None` for display adapters. A GPU that fails is a GPU with that failure
/// for a state: the others are still worth knowing.
fn gpu(nvml: &Nvml, index: u32) -> Option<Gpu> {
    let mut gpu = Gpu {
        id: GpuRef { index, uuid: None },
        name: None,
        fabric: FabricState::NotSupported,
        health: None,
    };
    if let Err(failure) = fill(nvml, &mut gpu) {
        gpu.fabric = FabricState::Unreadable(failure);
    }
    let is_display = gpu
        .name
        .as_deref()
        .is_some_and(|name| DISPLAY_ADAPTERS.contains(&name));
    (!is_display).then_some(gpu)
}

fn fill(nvml: &Nvml, gpu: &mut Gpu) -> Result<(), NvmlFailure> {
    let device = nvml
        .device_by_index(gpu.id.index)
        .map_err(|e| NvmlFailure::of_wrapper(HANDLE, e))?;
    gpu.name = Some(
        device
            .name()
            .map_err(|e| NvmlFailure::of_wrapper(NAME, e))?,
    );
    gpu.id.uuid = Some(
        device
            .uuid()
            .map_err(|e| NvmlFailure::of_wrapper(UUID, e))?,
    );
    (gpu.fabric, gpu.health) = fabric(&device, nvml)?;
    Ok(())
}

fn fabric(device: &Device<'_>, nvml: &Nvml) -> Result<(FabricState, Option<Health>), NvmlFailure> {
    match ffi::fabric_info(device, nvml.lib()) {
        Ok(info) => Ok((state(&info), health(&info))),
        Err(NvmlFailure::Returned {
            code: NvmlCode::NOT_SUPPORTED,
            ..
        }) => Ok((FabricState::NotSupported, None)),
        Err(failure) => Err(failure),
    }
}

/// `status`, cluster and clique mean something only in state 3 (nvml.h).
fn state(info: &FabricInfo) -> FabricState {
    match (info.state, NvmlCode(info.status)) {
        (0, _) => FabricState::NotSupported,
        (1, _) => FabricState::NotStarted,
        (2, _) => FabricState::InProgress,
        (3, NvmlCode::SUCCESS) => FabricState::Completed {
            cluster: ClusterUuid(info.cluster_uuid),
            clique_id: info.clique_id,
        },
        (3, status) => FabricState::Failed { status },
        (unknown, _) => FabricState::Unrecognised(unknown),
    }
}

fn health(info: &FabricInfo) -> Option<Health> {
    (info.state == 3).then_some(Health {
        mask: info.health_mask?,
        summary: info.health_summary.map(HealthSummary::from),
    })
}

// === impl ProbeError ===

impl ProbeError {
    /// A stable word for logs, metrics and findings.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoLibrary(missing) => missing.code(),
            Self::Nvml(failure) => failure.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoLibrary(missing) => missing.hint(),
            Self::Nvml(failure) => failure.hint(),
        }
    }
}

// === impl NoLibrary ===

impl NoLibrary {
    /// A stable word for logs, metrics and findings.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "nvml-missing",
            Self::Unloadable { .. } => "nvml-unloadable",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing(missing) if missing.has_broken_link() => {
                "the NVIDIA driver is installed only in part: wait if it is being installed, otherwise install it again"
            }
            Self::Missing(_) => {
                "install the NVIDIA driver on this node, or point the driver root at where it is (`/`, `/run/nvidia/driver`)"
            }
            Self::Unloadable { .. } => {
                "check that the driver's architecture is this node's and its files are whole (`ldd` on the library)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn half_a_driver_gets_another_hint_than_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
        let probe = NvmlProbe::new(DriverRoot::new(dir.path()));
        let error = probe.read().unwrap_err();
        assert!(error.hint().starts_with("install "), "{}", error.hint());

        let library = dir.path().join("usr/lib64/libnvidia-ml.so.1");
        symlink("libnvidia-ml.so.580.82.07", library).unwrap();
        let error = probe.read().unwrap_err();
        assert_eq!(error.code(), "nvml-missing");
        assert!(error.hint().contains("only in part"), "{}", error.hint());
        let reason = error.to_string();
        let missing = "is a broken link: /usr/lib64/libnvidia-ml.so.580.82.07 does not exist";
        assert!(reason.ends_with(missing), "{reason}");
    }
}
