//! One look at a host's GPUs.

use std::path::PathBuf;

use crate::call::CallUnderWay;
use crate::clique::ClusterUuid;
use crate::gpu::{FabricState, Gpu, GpuRef};
use crate::health::{Health, HealthSummary};
use crate::line::Shown;
use crate::nvml::{NvmlCode, NvmlFailure};
use crate::reload::Spelling;
use crate::root::{DriverRoot, NotFound, Reason};
use crate::sys::{Device, FabricInfo, Library, Session};

/// Reads the fabric state of every GPU once. [`NvmlProbe`] is the real one;
/// tests of callers bring their own.
pub trait FabricProbe: Send + Sync + 'static {
    /// The GPUs of this host in NVML's order.
    ///
    /// May block for seconds, and never returns if the driver hangs: call it
    /// through [`FabricWatch`](crate::FabricWatch) from anything that matters.
    fn read(&self) -> Result<Vec<Gpu>, ProbeError>;

    /// The call that [`read`](Self::read) is in, asked by another thread to say
    /// where it hangs.
    fn call_under_way(&self) -> Option<&'static str> {
        None
    }
}

/// Reads through the `libnvidia-ml.so.1` of a driver root.
///
/// Each read finds and loads the library anew and ends its session, so a
/// driver that appears late, is replaced or vanishes is noticed.
#[derive(Debug)]
pub struct NvmlProbe {
    root: DriverRoot,
    spelling: Spelling,
    under_way: CallUnderWay,
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
    /// There is none below the driver root that this process could load.
    #[error(transparent)]
    Missing(#[from] NotFound),
    /// It is there and the dynamic loader refuses it.
    #[error("{} cannot be loaded: {}", Shown(path), Shown(reason))]
    Unloadable {
        /// The file, all links resolved.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
}

/// Display adapters of DGX stations: enumerated by NVML, never part of a fabric.
const DISPLAY_ADAPTERS: [&str; 2] = ["DGX Display", "NVIDIA DGX Display"];

// === impl NvmlProbe ===

impl NvmlProbe {
    /// A probe for the driver below `root`.
    pub fn new(root: DriverRoot) -> Self {
        Self {
            root,
            spelling: Spelling::default(),
            under_way: CallUnderWay::default(),
        }
    }
}

impl FabricProbe for NvmlProbe {
    fn read(&self) -> Result<Vec<Gpu>, ProbeError> {
        let path = self.root.library().map_err(NoLibrary::from)?;
        let spelled = self.spelling.of(&path);
        let library = Library::load(&spelled, self.under_way.clone()).map_err(|said| {
            let prefix = format!("{}: ", spelled.display());
            NoLibrary::Unloadable {
                path,
                reason: said.strip_prefix(&prefix).unwrap_or(&said).to_owned(),
            }
        })?;
        Ok(gpus(&library.open()?)?)
    }

    fn call_under_way(&self) -> Option<&'static str> {
        self.under_way.get()
    }
}

fn gpus(session: &Session) -> Result<Vec<Gpu>, NvmlFailure> {
    let count = session.device_count()?;
    Ok((0..count).map(|index| gpu(session, index)).collect())
}

/// A GPU that fails is a GPU with that failure for a state: the others are
/// still worth knowing.
fn gpu(session: &Session, index: u32) -> Gpu {
    let mut gpu = Gpu {
        id: GpuRef { index, uuid: None },
        name: None,
        fabric: FabricState::NotSupported,
        health: None,
    };
    if let Err(failure) = fill(session, &mut gpu) {
        gpu.fabric = FabricState::Unreadable(failure);
    }
    gpu
}

fn fill(session: &Session, gpu: &mut Gpu) -> Result<(), NvmlFailure> {
    let device = session.device(gpu.id.index)?;
    let name = gpu.name.insert(device.name()?);
    if DISPLAY_ADAPTERS.contains(&name.as_str()) {
        gpu.fabric = FabricState::DisplayAdapter;
        return Ok(());
    }
    gpu.id.uuid = Some(device.uuid()?);
    (gpu.fabric, gpu.health) = fabric(&device)?;
    Ok(())
}

fn fabric(device: &Device<'_>) -> Result<(FabricState, Option<Health>), NvmlFailure> {
    match device.fabric_info() {
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
            Self::Missing(missing) if missing.any(is_unfit) => "nvml-unloadable",
            Self::Missing(_) => "nvml-missing",
            Self::Unloadable { .. } => "nvml-unloadable",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing(missing) if missing.any(is_half_there) => {
                "the NVIDIA driver is installed only in part: wait if it is being installed, otherwise install it again"
            }
            Self::Missing(missing) if missing.any(|it| matches!(it, Reason::NotLinked { .. })) => {
                "run `ldconfig` on the host (`chroot /run/nvidia/driver ldconfig` for a driver container), which makes the link"
            }
            Self::Missing(missing) if missing.any(is_unfit) => {
                "install the NVIDIA driver for this node's architecture, and remove what lies in its place"
            }
            Self::Missing(missing) if missing.any(is_in_its_place) => {
                "remove what lies in the library's place, and install the NVIDIA driver on this node if it is not"
            }
            Self::Missing(missing) if missing.any(|it| matches!(it, Reason::Unreadable(_))) => {
                "let this process read the driver's files (as root, past SELinux and AppArmor), and check the file system"
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

/// Something of the name is there and not all of it, as while an installation
/// is under way and after one that broke off.
fn is_half_there(reason: &Reason) -> bool {
    matches!(reason, Reason::BrokenLink { .. } | Reason::CutShort { .. })
}

/// A file of the name is there that is not what the name says.
fn is_unfit(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::NotALibrary | Reason::WrongArchitecture { .. } | Reason::CutShort { .. }
    )
}

/// What has the name is no file at all.
fn is_in_its_place(reason: &Reason) -> bool {
    matches!(reason, Reason::NotAFile | Reason::LinkLoop)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::root::Rejected;

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

    #[test]
    fn each_reason_has_the_hint_that_undoes_it_and_the_worst_is_hinted_at() {
        let hint = |reasons: &[Reason]| {
            let rejected = reasons.iter().map(|reason| Rejected {
                path: "/lib64/libnvidia-ml.so.1".into(),
                reason: reason.clone(),
            });
            NoLibrary::Missing(NotFound {
                name: "libnvidia-ml.so.1".to_owned(),
                root: "/".into(),
                rejected: rejected.collect(),
            })
            .hint()
        };
        let denied = Reason::Unreadable(std::io::ErrorKind::PermissionDenied);
        let unlinked = Reason::NotLinked {
            library: "libnvidia-ml.so.580".to_owned(),
        };
        assert!(hint(&[Reason::Missing, denied.clone()]).starts_with("let this process read"));
        assert!(hint(&[denied.clone(), Reason::LinkLoop]).starts_with("remove what lies"));
        assert!(hint(&[denied.clone(), Reason::NotAFile]).starts_with("remove what lies"));
        assert!(hint(&[Reason::NotAFile, unlinked]).starts_with("run `ldconfig`"));
        assert!(hint(&[denied, Reason::NotALibrary]).contains("this node's architecture"));
    }
}
