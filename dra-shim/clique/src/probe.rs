//! Reads the fabric state of a host's GPUs once.

use crate::clique_id::ClusterUuid;
use crate::current_call::CurrentCall;
use crate::driver_root::DriverRoot;
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::health::{Health, HealthSummary};
use crate::load_path::LoadPath;
use crate::nvml_failure::{NvmlCode, NvmlFailure};
use crate::probe_error::{NoLibrary, ProbeError};
use crate::sys::{Device, FabricInfo, Library, Session};

/// Reads the fabric state of a host's GPUs.
///
/// [`NvmlProbe`] is the implementation for real hosts. Others are for tests of
/// programs that use [`FabricWatch`](crate::FabricWatch).
pub trait FabricProbe: Send + Sync + 'static {
    /// Reads the state of every GPU of this host as it is now.
    ///
    /// *Called* by a [`FabricWatch`](crate::FabricWatch) on a thread that it
    /// starts for this alone: once at its start, then again after each result
    /// and a pause. There is never a second call before the first has returned.
    /// A program without a watch calls it where and when it likes.
    ///
    /// *May* block for as long as the driver does: seconds are common, and a
    /// driver that hangs never returns. Nobody cancels the call. If the watch is
    /// dropped meanwhile, the result is discarded.
    ///
    /// *Must* return the GPUs in NVML's order with one entry for each index, and
    /// nothing cached from an earlier call. A GPU that cannot be read is an entry
    /// in state [`GpuFabricState::Unreadable`], not an error.
    ///
    /// # Errors
    ///
    /// Only if nothing is known of any GPU. An error is a state of the host like
    /// any other: the watch calls again. So it does after a panic, which it
    /// reports as [`NvmlFailure::Panicked`].
    fn read(&self) -> Result<Vec<Gpu>, ProbeError>;

    /// The function that [`read`](Self::read) is in now: its name in `nvml.h`,
    /// or `dlopen`. `None` between two of them, while no read is running, and in
    /// implementations that do not track it.
    ///
    /// *Called* while a read is overdue, by a
    /// [`FabricWatch`](crate::FabricWatch) on its own thread and on every thread
    /// that calls [`FabricWatch::latest`](crate::FabricWatch::latest); so
    /// concurrently with `read` and with itself.
    ///
    /// *Must* return at once: it may not wait for a lock that `read` holds while
    /// it is in the driver. A panic ends neither thread of the watch, but reaches
    /// the caller of `latest`.
    fn current_call(&self) -> Option<&'static str> {
        None
    }
}

/// Reads through the `libnvidia-ml.so.1` of a driver root.
///
/// Each read finds and loads the library, opens a session and ends it, so a
/// driver that is installed, replaced or removed is noticed by the next read.
#[derive(Debug)]
pub struct NvmlProbe {
    root: DriverRoot,
    load_path: LoadPath,
    current_call: CurrentCall,
}

/// Display adapters of DGX stations: enumerated by NVML, never part of a fabric.
const DISPLAY_ADAPTERS: [&str; 2] = ["DGX Display", "NVIDIA DGX Display"];

// === impl NvmlProbe ===

impl NvmlProbe {
    /// A probe for the driver below `root`. Does no I/O.
    pub fn new(root: DriverRoot) -> Self {
        Self {
            root,
            load_path: LoadPath::default(),
            current_call: CurrentCall::default(),
        }
    }
}

impl FabricProbe for NvmlProbe {
    fn read(&self) -> Result<Vec<Gpu>, ProbeError> {
        let path = self.root.find_library().map_err(NoLibrary::from)?;
        let load_path = self.load_path.for_library(&path);
        let library = Library::load(&load_path, self.current_call.clone()).map_err(|message| {
            let prefix = format!("{}: ", load_path.display());
            NoLibrary::Unloadable {
                path,
                reason: message.strip_prefix(&prefix).unwrap_or(&message).to_owned(),
            }
        })?;
        Ok(read_gpus(&library.open()?)?)
    }

    fn current_call(&self) -> Option<&'static str> {
        self.current_call.get()
    }
}

fn read_gpus(session: &Session) -> Result<Vec<Gpu>, NvmlFailure> {
    let count = session.device_count()?;
    Ok((0..count).map(|index| read_gpu(session, index)).collect())
}

/// A failure becomes the state of this GPU: the others are still worth reading.
fn read_gpu(session: &Session, index: u32) -> Gpu {
    let mut gpu = Gpu {
        id: GpuRef { index, uuid: None },
        name: None,
        fabric: GpuFabricState::NotSupported,
        health: None,
    };
    if let Err(failure) = fill_in(session, &mut gpu) {
        gpu.fabric = GpuFabricState::Unreadable(failure);
    }
    gpu
}

/// Keeps what was read before a failure.
fn fill_in(session: &Session, gpu: &mut Gpu) -> Result<(), NvmlFailure> {
    let device = session.device(gpu.id.index)?;
    let name = gpu.name.insert(device.name()?);
    if DISPLAY_ADAPTERS.contains(&name.as_str()) {
        gpu.fabric = GpuFabricState::DisplayAdapter;
        return Ok(());
    }
    gpu.id.uuid = Some(device.uuid()?);
    (gpu.fabric, gpu.health) = read_fabric(&device)?;
    Ok(())
}

fn read_fabric(device: &Device<'_>) -> Result<(GpuFabricState, Option<Health>), NvmlFailure> {
    match device.fabric_info() {
        Ok(info) => Ok((state(&info), health(&info))),
        Err(NvmlFailure::Returned {
            code: NvmlCode::NOT_SUPPORTED,
            ..
        }) => Ok((GpuFabricState::NotSupported, None)),
        Err(failure) => Err(failure),
    }
}

/// Status, cluster and clique are meaningful only in state 3 (nvml.h).
fn state(info: &FabricInfo) -> GpuFabricState {
    match (info.state, NvmlCode(info.status)) {
        (0, _) => GpuFabricState::NotSupported,
        (1, _) => GpuFabricState::NotStarted,
        (2, _) => GpuFabricState::InProgress,
        (3, NvmlCode::SUCCESS) => GpuFabricState::Completed {
            cluster: ClusterUuid(info.cluster_uuid),
            clique_id: info.clique_id,
        },
        (3, status) => GpuFabricState::Failed { status },
        (unknown, _) => GpuFabricState::Unrecognised(unknown),
    }
}

fn health(info: &FabricInfo) -> Option<Health> {
    (info.state == 3).then_some(Health {
        mask: info.health_mask?,
        summary: info.health_summary.map(HealthSummary::from),
    })
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
