//! Reads the fabric state of a host's GPUs once.

use nvml_session::{
    Device, DriverRoot, FabricInfo, Nvml, NvmlCode, NvmlFailure, OpenError as ProbeError, Session,
};

use crate::clique_id::ClusterUuid;
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::health::{Health, HealthSummary};

/// Reads the fabric state of a host's GPUs.
///
/// [`NvmlProbe`] is the implementation for real hosts. Others are for tests of
/// programs that use [`FabricWatch`](crate::FabricWatch).
pub trait FabricProbe: Send + Sync + 'static {
    /// Reads the current state of every GPU of this host.
    ///
    /// *Called* by a [`FabricWatch`](crate::FabricWatch) on a dedicated thread: once at its
    /// start, then after each result and a pause. Calls of a watch never overlap. A program
    /// without a watch may call it on any thread at any time.
    ///
    /// *May* block as long as the driver does: seconds are common, and a hanging driver never
    /// returns. The call is never cancelled. If the watch is dropped meanwhile, the result is
    /// discarded.
    ///
    /// *Must* return the GPUs in NVML's order with one entry for each index, without cached
    /// data of an earlier call. A GPU that cannot be read is an entry in state
    /// [`GpuFabricState::Unreadable`], not an error.
    ///
    /// # Errors
    ///
    /// Only if no GPU could be read at all. The watch calls again after an error, and after a
    /// panic, which it reports as [`NvmlFailure::Panicked`].
    fn read(&self) -> Result<Vec<Gpu>, ProbeError>;

    /// The current call of [`read`](Self::read): the function's name in `nvml.h`, or `dlopen`.
    /// `None` between calls, while no read is running, and in implementations that do not track
    /// it.
    ///
    /// *Called* while a read is overdue, by a [`FabricWatch`](crate::FabricWatch) on its own
    /// thread and on every thread that calls
    /// [`FabricWatch::latest`](crate::FabricWatch::latest), so concurrently with `read` and
    /// with itself.
    ///
    /// *Must* return at once: it must not wait for a lock that `read` holds while it is in the
    /// driver. A panic does not end the watch's threads, but reaches the caller of `latest`.
    fn current_call(&self) -> Option<&'static str> {
        None
    }
}

/// Reads with the `libnvidia-ml.so.1` of a driver root.
///
/// Each read finds and loads the library, opens a session and ends it. So the next read detects
/// a driver that was installed, replaced or removed.
#[derive(Debug)]
pub struct NvmlProbe {
    nvml: Nvml,
}

/// Names of display adapters in DGX stations: NVML enumerates them, but they are never part of
/// a fabric.
const DISPLAY_ADAPTERS: [&str; 2] = ["DGX Display", "NVIDIA DGX Display"];

// === impl NvmlProbe ===

impl NvmlProbe {
    /// Creates a probe for the driver below `root`. Does no I/O.
    pub fn new(root: DriverRoot) -> Self {
        Self {
            nvml: Nvml::new(root),
        }
    }
}

impl FabricProbe for NvmlProbe {
    fn read(&self) -> Result<Vec<Gpu>, ProbeError> {
        Ok(read_gpus(&self.nvml.open()?)?)
    }

    fn current_call(&self) -> Option<&'static str> {
        self.nvml.current_call()
    }
}

fn read_gpus(session: &Session) -> Result<Vec<Gpu>, NvmlFailure> {
    let count = session.device_count()?;
    Ok((0..count).map(|index| read_gpu(session, index)).collect())
}

/// Reads one GPU. A failure becomes the state of this GPU, so that the others can be read.
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

/// Fills in the GPU's fields, up to the first failure.
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

/// Converts NVML's state. Status, cluster and clique are meaningful only in state 3 (nvml.h).
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
    fn an_incomplete_driver_has_another_hint_than_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
        let probe = NvmlProbe::new(DriverRoot::new(dir.path()));
        let error = probe.read().unwrap_err();
        assert!(error.hint().starts_with("install "), "{}", error.hint());

        let library = dir.path().join("usr/lib64/libnvidia-ml.so.1");
        symlink("libnvidia-ml.so.580.82.07", library).unwrap();
        let error = probe.read().unwrap_err();
        assert_eq!(error.code(), "nvml-missing");
        assert!(
            error.hint().contains("only partly installed"),
            "{}",
            error.hint()
        );
        let reason = error.to_string();
        let missing = "is a broken link: /usr/lib64/libnvidia-ml.so.580.82.07 does not exist";
        assert!(reason.ends_with(missing), "{reason}");
    }
}
