//! What NVML reports of a GPU's MIG devices, GPU instances and profiles.

use std::ffi::c_uint;
use std::mem::size_of;
use std::ptr;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlDevice_t,
    nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_t,
};
use serde::{Deserialize, Serialize};

use super::gpu_calls::{UNWRITTEN, written};
use super::padded::Padded;
use super::session::Device;
use super::symbol::required;
use crate::nvml_failure::{NvmlCode, NvmlFailure};

const MAX_DEVICES: &str = "nvmlDeviceGetMaxMigDeviceCount";
const DEVICE: &str = "nvmlDeviceGetMigDeviceHandleByIndex";
const GPU_INSTANCE_ID: &str = "nvmlDeviceGetGpuInstanceId";
const COMPUTE_INSTANCE_ID: &str = "nvmlDeviceGetComputeInstanceId";
const GPU_INSTANCE: &str = "nvmlDeviceGetGpuInstanceById";
const GPU_INSTANCE_INFO: &str = "nvmlGpuInstanceGetInfo";
const COMPUTE_INSTANCE: &str = "nvmlGpuInstanceGetComputeInstanceById";
const COMPUTE_INSTANCE_INFO: &str = "nvmlComputeInstanceGetInfo_v2";
const PROFILE: &str = "nvmlDeviceGetGpuInstanceProfileInfo";

const _: () = {
    assert!(size_of::<nvmlGpuInstanceInfo_t>() == 24);
    assert!(size_of::<nvmlComputeInstanceInfo_t>() == 32);
    assert!(size_of::<nvmlGpuInstanceProfileInfo_t>() == 48);
};

/// A MIG device of a GPU: a compute instance of a GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// The UUID, `MIG-…`.
    pub uuid: String,
    /// The GPU instance.
    pub gpu_instance: GpuInstance,
    /// The id of the compute instance within the GPU instance.
    pub compute_instance: u32,
    /// The profile id of the compute instance: an index of `nvml.h`, such as 0 for one slice.
    pub compute_profile: u32,
}

/// A GPU instance: slices of a GPU with their share of memory and engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Its id on the GPU.
    pub id: u32,
    /// The id of its profile on this GPU ([`GpuInstanceProfile::id`]).
    pub profile: u32,
    /// The memory slices that it occupies.
    pub placement: Placement,
}

/// Memory slices of a GPU, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The first slice.
    pub start: u32,
    /// The number of slices.
    pub size: u32,
}

/// A kind of GPU instance that a GPU offers (`nvmlGpuInstanceProfileInfo_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstanceProfile {
    /// The id of the profile on this GPU, as in `nvidia-smi mig -lgip`.
    pub id: u32,
    /// The number of compute slices.
    pub slices: u32,
    /// The number of instances that fit on an empty GPU.
    pub instances: u32,
    /// The number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// The number of copy engines.
    pub copy_engines: u32,
    /// The number of video decoders.
    pub decoders: u32,
    /// The number of video encoders.
    pub encoders: u32,
    /// The number of JPEG decoders.
    pub jpeg_engines: u32,
    /// The number of optical flow accelerators.
    pub ofa_engines: u32,
    /// The memory in MiB.
    pub memory_mib: u64,
}

// === impl Device ===

impl Device<'_> {
    /// The number of indices for [`mig_device`](Self::mig_device).
    pub fn max_mig_devices(&self) -> Result<u32, NvmlFailure> {
        let read = required(
            &self.library.lib.nvmlDeviceGetMaxMigDeviceCount,
            MAX_DEVICES,
        )?;
        self.number(MAX_DEVICES, read)
    }

    /// The MIG device with `index`; `None` if that index has none.
    pub fn mig_device(&self, index: u32) -> Result<Option<MigDevice>, NvmlFailure> {
        let read = required(
            &self.library.lib.nvmlDeviceGetMigDeviceHandleByIndex,
            DEVICE,
        )?;
        let mut handle: Padded<nvmlDevice_t> = Padded::new(ptr::null_mut());
        // SAFETY: the handle is of the session that `self` borrows, and the pointer is valid for more than the one
        // handle that is written.
        let called = self.library.call(DEVICE, || unsafe {
            read(self.handle, index, (&raw mut handle).cast())
        });
        match called {
            Ok(()) => {}
            Err(NvmlFailure::Returned { code, .. })
                if [NvmlCode::NOT_FOUND, NvmlCode::INVALID_ARGUMENT].contains(&code) =>
            {
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        let device = Device {
            library: self.library,
            handle: not_null(DEVICE, handle.value)?,
        };
        self.describe(&device).map(Some)
    }

    fn describe(&self, device: &Device<'_>) -> Result<MigDevice, NvmlFailure> {
        let lib = &self.library.lib;
        let gpu_instance_id = required(&lib.nvmlDeviceGetGpuInstanceId, GPU_INSTANCE_ID)?;
        let compute_instance_id =
            required(&lib.nvmlDeviceGetComputeInstanceId, COMPUTE_INSTANCE_ID)?;
        let id = device.number(GPU_INSTANCE_ID, gpu_instance_id)?;
        let instance = self.gpu_instance_handle(id)?;
        let compute_instance = device.number(COMPUTE_INSTANCE_ID, compute_instance_id)?;
        Ok(MigDevice {
            uuid: device.uuid()?,
            gpu_instance: self.gpu_instance(instance)?,
            compute_instance,
            compute_profile: self.compute_profile(instance, compute_instance)?,
        })
    }

    fn gpu_instance_handle(&self, id: u32) -> Result<nvmlGpuInstance_t, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetGpuInstanceById, GPU_INSTANCE)?;
        let mut handle: Padded<nvmlGpuInstance_t> = Padded::new(ptr::null_mut());
        // SAFETY: as for the handle of a MIG device.
        self.library.call(GPU_INSTANCE, || unsafe {
            read(self.handle, id, (&raw mut handle).cast())
        })?;
        not_null(GPU_INSTANCE, handle.value)
    }

    fn gpu_instance(&self, instance: nvmlGpuInstance_t) -> Result<GpuInstance, NvmlFailure> {
        let call = GPU_INSTANCE_INFO;
        let read = required(&self.library.lib.nvmlGpuInstanceGetInfo, call)?;
        let mut info = Padded::new(nvmlGpuInstanceInfo_t {
            device: ptr::null_mut(),
            id: UNWRITTEN,
            profileId: UNWRITTEN,
            placement: nvmlGpuInstancePlacement_t { start: 0, size: 0 },
        });
        // SAFETY: the instance's handle is of the session that `self` borrows, and the buffer is larger than the
        // struct.
        self.library
            .call(call, || unsafe { read(instance, (&raw mut info).cast()) })?;
        let info = info.value;
        Ok(GpuInstance {
            id: written(call, info.id)?,
            profile: written(call, info.profileId)?,
            placement: Placement {
                start: info.placement.start,
                size: info.placement.size,
            },
        })
    }

    fn compute_profile(&self, instance: nvmlGpuInstance_t, id: u32) -> Result<u32, NvmlFailure> {
        let lib = &self.library.lib;
        let find = required(&lib.nvmlGpuInstanceGetComputeInstanceById, COMPUTE_INSTANCE)?;
        let read = required(&lib.nvmlComputeInstanceGetInfo_v2, COMPUTE_INSTANCE_INFO)?;
        let mut handle: Padded<nvmlComputeInstance_t> = Padded::new(ptr::null_mut());
        // SAFETY: as for the handle of a MIG device.
        self.library.call(COMPUTE_INSTANCE, || unsafe {
            find(instance, id, (&raw mut handle).cast())
        })?;
        let handle = not_null(COMPUTE_INSTANCE, handle.value)?;
        let mut info = Padded::new(nvmlComputeInstanceInfo_t {
            device: ptr::null_mut(),
            gpuInstance: ptr::null_mut(),
            id: UNWRITTEN,
            profileId: UNWRITTEN,
            placement: nvmlComputeInstancePlacement_t { start: 0, size: 0 },
        });
        // SAFETY: as for the info of a GPU instance.
        self.library.call(COMPUTE_INSTANCE_INFO, || unsafe {
            read(handle, (&raw mut info).cast())
        })?;
        written(COMPUTE_INSTANCE_INFO, info.value.profileId)
    }

    /// The profile with an index of `nvml.h` (`NVML_GPU_INSTANCE_PROFILE_…`), which is not its
    /// [`id`](GpuInstanceProfile::id). [`NvmlCode::NOT_SUPPORTED`] or [`NvmlCode::INVALID_ARGUMENT`] if the GPU or
    /// the driver does not have it.
    pub fn gpu_instance_profile(&self, index: u32) -> Result<GpuInstanceProfile, NvmlFailure> {
        let read = required(
            &self.library.lib.nvmlDeviceGetGpuInstanceProfileInfo,
            PROFILE,
        )?;
        let mut info = Padded::new(nvmlGpuInstanceProfileInfo_t {
            id: UNWRITTEN,
            isP2pSupported: 0,
            sliceCount: 0,
            instanceCount: 0,
            multiprocessorCount: 0,
            copyEngineCount: 0,
            decoderCount: 0,
            encoderCount: 0,
            jpegCount: 0,
            ofaCount: 0,
            memorySizeMB: 0,
        });
        // SAFETY: the handle is of the session that `self` borrows. NVML writes this struct, which has no version
        // and never changed, and the buffer is larger than that.
        self.library.call(PROFILE, || unsafe {
            read(self.handle, index as c_uint, (&raw mut info).cast())
        })?;
        let info = info.value;
        Ok(GpuInstanceProfile {
            id: written(PROFILE, info.id)?,
            slices: info.sliceCount,
            instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            copy_engines: info.copyEngineCount,
            decoders: info.decoderCount,
            encoders: info.encoderCount,
            jpeg_engines: info.jpegCount,
            ofa_engines: info.ofaCount,
            memory_mib: info.memorySizeMB,
        })
    }
}

fn not_null<T>(call: &'static str, handle: *mut T) -> Result<*mut T, NvmlFailure> {
    if handle.is_null() {
        return Err(NvmlFailure::WroteNothing { call });
    }
    Ok(handle)
}
