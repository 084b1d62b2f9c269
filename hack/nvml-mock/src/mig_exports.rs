//! The functions of `nvml.h` about MIG devices, GPU instances and compute instances, from the device's facts.
//!
//! # Safety
//!
//! As in NVML, pointers are NULL or valid for the values that `nvml.h` documents.

use std::ffi::c_uint;
use std::ptr;

use gpu_inventory::{Fact, MigDevice, MigFacts};
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t,
    nvmlComputeInstanceProfileInfo_t, nvmlDevice_t, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t,
    nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};

use crate::gpu_exports::known;
use crate::session::{self, DeviceCall};
use crate::write::{Outcome, code, put};

/// Bits of a handle: the GPU's index + 1, below it the MIG device's index + 1. So the handle of a GPU has no high bits.
const GPU_BITS: u32 = 16;

/// The slices of the profiles of compute instances, by their index in `nvml.h`.
const COMPUTE_SLICES: [u32; 9] = [1, 2, 3, 4, 7, 8, 6, 1, 7];

/// Splits the handle of a MIG device, or of its instances, into the indices of GPU and MIG device.
pub(crate) fn split<T>(handle: *mut T) -> Option<(usize, usize)> {
    let mig = (handle.addr() >> GPU_BITS).checked_sub(1)?;
    let gpu = (handle.addr() & ((1 << GPU_BITS) - 1)).checked_sub(1)?;
    Some((gpu, mig))
}

fn handle<T>(gpu: usize, mig: usize) -> *mut T {
    ptr::without_provenance_mut(((mig + 1) << GPU_BITS) | (gpu + 1))
}

fn mig(call: &DeviceCall) -> Result<MigFacts, nvmlReturn_t> {
    known(&call.device()?.facts.mig)
}

fn device_at(call: &DeviceCall, index: usize) -> Result<MigDevice, nvmlReturn_t> {
    match mig(call)?.devices.get(index) {
        None | Some(Fact::Absent) => Err(NOT_FOUND),
        Some(device) => known(device),
    }
}

/// Begins a call on a MIG device or one of its instances.
fn begin<T>(
    symbol: &'static str,
    handle: *mut T,
) -> Result<(DeviceCall, usize, MigDevice), nvmlReturn_t> {
    let (gpu, index) = split(handle).ok_or(INVALID_ARGUMENT)?;
    let call = session::begin_on_index(symbol, gpu)?;
    let device = device_at(&call, index)?;
    Ok((call, index, device))
}

/// The UUID of the MIG device with this handle.
pub(crate) fn uuid(
    symbol: &'static str,
    device: nvmlDevice_t,
) -> Result<(DeviceCall, String), nvmlReturn_t> {
    let (call, _, device) = begin(symbol, device)?;
    Ok((call, device.uuid))
}

/// Writes the number of indices for MIG devices.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(
    device: nvmlDevice_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetMaxMigDeviceCount", device).and_then(|call| {
            let devices = mig(&call)?.devices.len().max(7);
            let devices = c_uint::try_from(devices).map_err(|_| INVALID_ARGUMENT)?;
            // SAFETY: the contract of this module.
            unsafe { put(devices, count, call.misbehaviour) }
        }),
    )
}

/// Writes the handle of a MIG device.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    index: c_uint,
    mig_device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetMigDeviceHandleByIndex", device).and_then(|call| {
            let index = index as usize;
            // A device that cannot be read fails here.
            device_at(&call, index)?;
            // SAFETY: the contract of this module.
            unsafe { put(handle(call.index, index), mig_device, call.misbehaviour) }
        }),
    )
}

/// Writes whether the handle is of a MIG device.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceIsMigDeviceHandle(
    device: nvmlDevice_t,
    is_mig: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { put(split(device).is_some().into(), is_mig, None) })
}

/// Writes the id of a MIG device's GPU instance.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(
    device: nvmlDevice_t,
    id: *mut c_uint,
) -> nvmlReturn_t {
    code(
        begin("nvmlDeviceGetGpuInstanceId", device)
            // SAFETY: the contract of this module.
            .and_then(|(call, _, mig)| unsafe { put(mig.gpu_instance.id, id, call.misbehaviour) }),
    )
}

/// Writes the id of a MIG device's compute instance.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetComputeInstanceId(
    device: nvmlDevice_t,
    id: *mut c_uint,
) -> nvmlReturn_t {
    code(
        begin("nvmlDeviceGetComputeInstanceId", device)
            // SAFETY: the contract of this module.
            .and_then(|(call, _, mig)| unsafe { put(mig.compute_instance, id, call.misbehaviour) }),
    )
}

/// Writes the handle of the GPU instance with an id: the one of its first MIG device.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuInstanceById(
    device: nvmlDevice_t,
    id: c_uint,
    instance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetGpuInstanceById", device).and_then(|call| {
            let is_it = |mig: &MigDevice| mig.gpu_instance.id == id;
            let index = position(&call, is_it)?;
            // SAFETY: the contract of this module.
            unsafe { put(handle(call.index, index), instance, call.misbehaviour) }
        }),
    )
}

/// Writes a GPU instance.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlGpuInstanceGetInfo(
    instance: nvmlGpuInstance_t,
    info: *mut nvmlGpuInstanceInfo_t,
) -> nvmlReturn_t {
    code(
        begin("nvmlGpuInstanceGetInfo", instance).and_then(|(call, _, mig)| {
            let gpu: nvmlDevice_t = ptr::without_provenance_mut(call.index + 1);
            let placement = mig.gpu_instance.placement;
            let value = nvmlGpuInstanceInfo_t {
                device: gpu,
                id: mig.gpu_instance.id,
                profileId: mig.gpu_instance.profile,
                placement: nvmlGpuInstancePlacement_t {
                    start: placement.start,
                    size: placement.size,
                },
            };
            // SAFETY: the contract of this module.
            unsafe { put(value, info, call.misbehaviour) }
        }),
    )
}

/// Writes the handle of the compute instance with an id in a GPU instance.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlGpuInstanceGetComputeInstanceById(
    instance: nvmlGpuInstance_t,
    id: c_uint,
    compute: *mut nvmlComputeInstance_t,
) -> nvmlReturn_t {
    code(
        begin("nvmlGpuInstanceGetComputeInstanceById", instance).and_then(|(call, _, first)| {
            let is_it = |mig: &MigDevice| {
                mig.gpu_instance.id == first.gpu_instance.id && mig.compute_instance == id
            };
            let index = position(&call, is_it)?;
            // SAFETY: the contract of this module.
            unsafe { put(handle(call.index, index), compute, call.misbehaviour) }
        }),
    )
}

/// Writes a compute instance.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlComputeInstanceGetInfo_v2(
    compute: nvmlComputeInstance_t,
    info: *mut nvmlComputeInstanceInfo_t,
) -> nvmlReturn_t {
    code(
        begin("nvmlComputeInstanceGetInfo_v2", compute).and_then(|(call, index, mig)| {
            let value = nvmlComputeInstanceInfo_t {
                device: handle(call.index, index),
                gpuInstance: handle(call.index, index),
                id: mig.compute_instance,
                profileId: mig.compute_profile,
                placement: nvmlComputeInstancePlacement_t { start: 0, size: 0 },
            };
            // SAFETY: the contract of this module.
            unsafe { put(value, info, call.misbehaviour) }
        }),
    )
}

/// Writes the profile of GPU instances with an index of `nvml.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuInstanceProfileInfo(
    device: nvmlDevice_t,
    profile: c_uint,
    info: *mut nvmlGpuInstanceProfileInfo_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { profile_info(device, profile, info) })
}

/// # Safety
/// `info` is NULL or valid for writing.
unsafe fn profile_info(
    device: nvmlDevice_t,
    profile: c_uint,
    info: *mut nvmlGpuInstanceProfileInfo_t,
) -> Outcome {
    let call = session::begin_on_device("nvmlDeviceGetGpuInstanceProfileInfo", device)?;
    let profiles = known(&mig(&call)?.profiles)?;
    let found = profiles.iter().find(|it| it.index == profile);
    let found = found.ok_or(NOT_SUPPORTED)?.info;
    let value = nvmlGpuInstanceProfileInfo_t {
        id: found.id,
        isP2pSupported: 0,
        sliceCount: found.slices,
        instanceCount: found.instances,
        multiprocessorCount: found.multiprocessors,
        copyEngineCount: found.copy_engines,
        decoderCount: found.decoders,
        encoderCount: found.encoders,
        jpegCount: found.jpeg_engines,
        ofaCount: found.ofa_engines,
        memorySizeMB: found.memory_mib,
    };
    // SAFETY: the contract of this function.
    unsafe { put(value, info, call.misbehaviour) }
}

/// Counts or writes where GPU instances of a profile can be: one beside the other from the first memory slice on.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    device: nvmlDevice_t,
    profile_id: c_uint,
    placements: *mut nvmlGpuInstancePlacement_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { possible_placements(device, profile_id, placements, count) })
}

/// # Safety
/// `count` is NULL or valid for reading and writing; `placements` is NULL, or valid for writing as many placements.
unsafe fn possible_placements(
    device: nvmlDevice_t,
    profile_id: c_uint,
    placements: *mut nvmlGpuInstancePlacement_t,
    count: *mut c_uint,
) -> Outcome {
    let call = session::begin_on_device("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device)?;
    let profiles = known(&mig(&call)?.profiles)?;
    let whole = profiles.iter().map(|it| it.info.memory_mib).max();
    let found = profiles.iter().find(|it| it.info.id == profile_id);
    let (found, whole) = found.zip(whole).ok_or(INVALID_ARGUMENT)?;
    // The whole GPU has 8 memory slices.
    let size = (found.info.memory_mib * 8).div_ceil(whole);
    let size = c_uint::try_from(size).map_err(|_| INVALID_ARGUMENT)?;
    if !placements.is_null() {
        // SAFETY: the contract of this function.
        if count.is_null() || unsafe { *count } < found.info.instances {
            return Err(INSUFFICIENT_SIZE);
        }
        for instance in 0..found.info.instances {
            let start = instance * size;
            // SAFETY: the contract of this function, and the count is large enough.
            unsafe {
                placements
                    .add(instance as usize)
                    .write(nvmlGpuInstancePlacement_t { start, size });
            }
        }
    }
    // SAFETY: the contract of this function.
    unsafe { put(found.info.instances, count, call.misbehaviour) }
}

/// Writes the profile of compute instances with an index of `nvml.h`, which is its id, too.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    instance: nvmlGpuInstance_t,
    profile: c_uint,
    _engine_profile: c_uint,
    info: *mut nvmlComputeInstanceProfileInfo_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { compute_profile_info(instance, profile, info) })
}

/// # Safety
/// `info` is NULL or valid for writing.
unsafe fn compute_profile_info(
    instance: nvmlGpuInstance_t,
    profile: c_uint,
    info: *mut nvmlComputeInstanceProfileInfo_t,
) -> Outcome {
    let (call, _, device) = begin("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance)?;
    let profiles = known(&mig(&call)?.profiles)?;
    let whole = profiles
        .iter()
        .find(|it| it.info.id == device.gpu_instance.profile);
    let whole = whole.ok_or(NOT_FOUND)?.info;
    let slices = COMPUTE_SLICES
        .get(profile as usize)
        .ok_or(INVALID_ARGUMENT)?;
    if *slices > whole.slices {
        return Err(NOT_SUPPORTED);
    }
    let value = nvmlComputeInstanceProfileInfo_t {
        id: profile,
        sliceCount: *slices,
        instanceCount: whole.slices / slices,
        multiprocessorCount: whole.multiprocessors * slices / whole.slices,
        sharedCopyEngineCount: whole.copy_engines,
        sharedDecoderCount: whole.decoders,
        sharedEncoderCount: whole.encoders,
        sharedJpegCount: whole.jpeg_engines,
        sharedOfaCount: whole.ofa_engines,
    };
    // SAFETY: the contract of this function.
    unsafe { put(value, info, call.misbehaviour) }
}

fn position(call: &DeviceCall, is_it: impl Fn(&MigDevice) -> bool) -> Result<usize, nvmlReturn_t> {
    let devices = mig(call)?.devices;
    devices
        .iter()
        .position(|device| device.known().is_some_and(&is_it))
        .ok_or(NOT_FOUND)
}
