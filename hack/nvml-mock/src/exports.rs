//! The functions of `nvml.h` that this library exports.
//!
//! # Safety
//!
//! As in NVML, pointers are NULL or valid for the values that `nvml.h` documents.

use std::ffi::{CStr, c_char, c_uint};
use std::mem::size_of;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
    nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};

use crate::config::Misbehaviour;
use crate::mig_exports;
use crate::session;
use crate::write::{Outcome, code, put, put_text};

/// The version words of the two versioned structs.
const VERSION_2: c_uint = 0x0200_0024;
const VERSION_3: c_uint = 0x0300_0028;
const _: () = {
    assert!(size_of::<nvmlGpuFabricInfo_t>() == 28);
    assert!(size_of::<nvmlGpuFabricInfo_v2_t>() == 0x24);
    assert!(size_of::<nvmlGpuFabricInfo_v3_t>() == 0x28);
};

/// Initialises as [`nvmlInit_v2`] does.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit() -> nvmlReturn_t {
    code(init("nvmlInit"))
}

/// Opens a session.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    code(init("nvmlInit_v2"))
}

/// Opens a session; no flag changes what the mock does.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    code(init("nvmlInitWithFlags"))
}

/// Ends a session.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    code(session::begin_in_session("nvmlShutdown").and_then(|_| session::close()))
}

/// Writes the number of devices.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { device_count("nvmlDeviceGetCount_v2", count) })
}

/// Writes the number of devices.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetCount(count: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { device_count("nvmlDeviceGetCount", count) })
}

/// Writes the handle of device `index`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { handle("nvmlDeviceGetHandleByIndex_v2", index, device) })
}

/// Writes the handle of device `index`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetHandleByIndex(
    index: c_uint,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { handle("nvmlDeviceGetHandleByIndex", index, device) })
}

/// Writes the handle of the device with this UUID. Only NVIDIA's plugin calls it, in a test by hand.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    if uuid.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the contract of this module.
    let uuid = unsafe { CStr::from_ptr(uuid) }.to_string_lossy();
    // SAFETY: the contract of this module.
    code(unsafe { handle_of(&uuid, device) })
}

/// Writes the device's `name`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetName(
    device: nvmlDevice_t,
    name: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetName", device)
            // SAFETY: the contract of this module.
            .and_then(|call| unsafe {
                put_text(&call.device()?.name, name, length, call.misbehaviour)
            }),
    )
}

/// Writes the device's `uuid`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetUUID(
    device: nvmlDevice_t,
    uuid: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    const SYMBOL: &str = "nvmlDeviceGetUUID";
    if mig_exports::split(device).is_some() {
        return code(
            mig_exports::uuid(SYMBOL, device)
                // SAFETY: the contract of this module.
                .and_then(|(call, text)| unsafe {
                    put_text(&text, uuid, length, call.misbehaviour)
                }),
        );
    }
    code(
        session::begin_on_device(SYMBOL, device)
            // SAFETY: the contract of this module.
            .and_then(|call| unsafe {
                put_text(&call.device()?.uuid, uuid, length, call.misbehaviour)
            }),
    )
}

/// Writes the device's `fabric` as the struct without a version.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuFabricInfo(
    device: nvmlDevice_t,
    info: *mut nvmlGpuFabricInfo_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { fabric_info(device, info) })
}

/// Writes the device's `fabric` in the version of the caller's struct, up to
/// `fabric_info_version`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(
    device: nvmlDevice_t,
    info: *mut nvmlGpuFabricInfo_v3_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { fabric_info_versioned(device, info) })
}

fn init(symbol: &'static str) -> Outcome {
    session::begin(symbol).map(|()| session::open())
}

/// # Safety
/// `count` is NULL or valid for writing.
unsafe fn device_count(symbol: &'static str, count: *mut c_uint) -> Outcome {
    let (config, misbehaviour) = session::begin_in_session(symbol)?;
    let devices = c_uint::try_from(config.devices.len()).map_err(|_| INVALID_ARGUMENT)?;
    let devices = config.device_count.unwrap_or(devices);
    // SAFETY: the contract of this function.
    unsafe { put(devices, count, misbehaviour) }
}

/// # Safety
/// `device` is NULL or valid for writing.
unsafe fn handle(symbol: &'static str, index: c_uint, device: *mut nvmlDevice_t) -> Outcome {
    let (handle, misbehaviour) = session::begin_handle(symbol, index)?;
    // SAFETY: the contract of this function.
    unsafe { put(handle, device, misbehaviour) }
}

/// # Safety
/// `device` is NULL or valid for writing.
unsafe fn handle_of(uuid: &str, device: *mut nvmlDevice_t) -> Outcome {
    let symbol = "nvmlDeviceGetHandleByUUID";
    let (config, _) = session::begin_in_session(symbol)?;
    let index = config.devices.iter().position(|it| it.uuid == uuid);
    let index = index.ok_or(NOT_FOUND)?.try_into();
    // SAFETY: the contract of this function.
    unsafe { handle(symbol, index.map_err(|_| NOT_FOUND)?, device) }
}

/// # Safety
/// `info` is NULL or valid for writing.
unsafe fn fabric_info(device: nvmlDevice_t, info: *mut nvmlGpuFabricInfo_t) -> Outcome {
    let call = session::begin_on_device("nvmlDeviceGetGpuFabricInfo", device)?;
    let fabric = call.device()?.fabric.ok_or(NOT_SUPPORTED)?;
    let value = nvmlGpuFabricInfo_t {
        clusterUuid: fabric.cluster_uuid,
        status: fabric.status,
        cliqueId: fabric.clique_id,
        state: fabric.state,
    };
    // SAFETY: the contract of this function.
    unsafe { put(value, info, call.misbehaviour) }
}

/// # Safety
/// `info` is NULL or valid for reading a version word and for writing the
/// struct that it announces.
unsafe fn fabric_info_versioned(
    device: nvmlDevice_t,
    info: *mut nvmlGpuFabricInfo_v3_t,
) -> Outcome {
    if info.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let call = session::begin_on_device("nvmlDeviceGetGpuFabricInfoV", device)?;
    let misbehaviour = call.misbehaviour;
    // SAFETY: every version begins with this word.
    let version = unsafe { info.cast::<c_uint>().read() };
    if version >> 24 > call.config.fabric_info_version {
        return Err(VERSION_MISMATCH);
    }
    let fabric = call.device()?.fabric.ok_or(NOT_SUPPORTED)?;
    let v3 = nvmlGpuFabricInfo_v3_t {
        version,
        clusterUuid: fabric.cluster_uuid,
        status: fabric.status,
        cliqueId: fabric.clique_id,
        state: fabric.state,
        healthMask: fabric.health_mask,
        healthSummary: fabric.health_summary,
    };
    let v2 = nvmlGpuFabricInfo_v2_t {
        version,
        clusterUuid: v3.clusterUuid,
        status: v3.status,
        cliqueId: v3.cliqueId,
        state: v3.state,
        healthMask: v3.healthMask,
    };
    match version {
        // SAFETY: every versioned struct begins as version 2 does.
        _ if misbehaviour == Some(Misbehaviour::IgnoresVersion) => unsafe {
            put(v2, info.cast(), misbehaviour)
        },
        // SAFETY: the caller announced a struct of this size.
        VERSION_3 => unsafe { put(v3, info, misbehaviour) },
        // SAFETY: the caller announced a struct of this size.
        VERSION_2 => unsafe { put(v2, info.cast(), misbehaviour) },
        _ => Err(VERSION_MISMATCH),
    }
}
