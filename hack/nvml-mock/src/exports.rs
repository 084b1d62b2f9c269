//! The functions of `nvml.h` that this library has.
//!
//! Safety of all of them, as in NVML: pointers are NULL or valid for what the
//! header says is written there.

use std::ffi::{CStr, c_char, c_uint};
use std::mem::size_of;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
    nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t,
};

use crate::config::{Misbehaviour, Names};
use crate::session::{self, OnDevice};

type Answer = Result<(), nvmlReturn_t>;

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

/// Names a code in a few words.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text: &'static CStr = match result {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        18 => c"Driver/library version mismatch",
        25 => c"Argument Version Mismatch",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// Writes `driver_version`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlSystemGetDriverVersion(
    version: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_in_session("nvmlSystemGetDriverVersion")
            // SAFETY: the contract of this module.
            .and_then(|config| unsafe { put_text(&config.driver_version, version, length, None) }),
    )
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

/// Writes the device's `name`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetName(
    device: nvmlDevice_t,
    name: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_on("nvmlDeviceGetName", device)
            // SAFETY: the contract of this module.
            .and_then(|it| unsafe { put_text(&it.device.name, name, length, it.misbehaviour) }),
    )
}

/// Writes the device's `uuid`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetUUID(
    device: nvmlDevice_t,
    uuid: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_on("nvmlDeviceGetUUID", device)
            // SAFETY: the contract of this module.
            .and_then(|it| unsafe { put_text(&it.device.uuid, uuid, length, it.misbehaviour) }),
    )
}

/// Writes the device's `fabric` in the form without a version.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuFabricInfo(
    device: nvmlDevice_t,
    info: *mut nvmlGpuFabricInfo_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { fabric_info(device, info) })
}

/// Writes the device's `fabric` in the version that the caller's struct asks
/// for, up to `fabric_info_version`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(
    device: nvmlDevice_t,
    info: *mut nvmlGpuFabricInfo_v3_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { fabric_info_versioned(device, info) })
}

fn code(answer: Answer) -> nvmlReturn_t {
    match answer {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

fn init(symbol: &'static str) -> Answer {
    session::begin(symbol).map(|_| session::open())
}

/// How much an overrun writes beyond the caller's buffer.
const OVERRUN: usize = 256;

/// # Safety
/// `to` is NULL or valid for writing; with [`Misbehaviour::Overrun`], so are
/// [`OVERRUN`] bytes behind it.
unsafe fn put<T>(value: T, to: *mut T, how: Option<Misbehaviour>) -> Answer {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if how == Some(Misbehaviour::WritesNothing) {
        return Ok(());
    }
    // SAFETY: not NULL, so valid by the contract.
    unsafe { to.write(value) };
    match how {
        // SAFETY: valid for a whole `T`.
        Some(Misbehaviour::Garbage) => unsafe { to.write_bytes(0xff, 1) },
        // SAFETY: the contract of this function.
        Some(Misbehaviour::Overrun) => unsafe { to.add(1).cast::<u8>().write_bytes(0xaa, OVERRUN) },
        _ => {}
    }
    Ok(())
}

/// # Safety
/// `to` is NULL or valid for writing `length` bytes; with
/// [`Misbehaviour::Overrun`], so are [`OVERRUN`] bytes behind them.
unsafe fn put_text(
    text: &str,
    to: *mut c_char,
    length: c_uint,
    how: Option<Misbehaviour>,
) -> Answer {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let fill = |byte, bytes| {
        // SAFETY: the contract of this function; more than `length` bytes are
        // asked for with `Misbehaviour::Overrun` alone.
        unsafe { to.cast::<u8>().write_bytes(byte, bytes) };
        Ok(())
    };
    let text = match how {
        None | Some(Misbehaviour::IgnoresVersion) => text.as_bytes(),
        Some(Misbehaviour::WritesNothing) => return Ok(()),
        Some(Misbehaviour::NotUtf8) => b"\xff\xfe",
        Some(Misbehaviour::LineBreak) => b"GPU-\nevil",
        Some(Misbehaviour::Garbage) => return fill(0xff, length as usize),
        Some(Misbehaviour::Unterminated) => return fill(b'A', length as usize),
        Some(Misbehaviour::Overrun) => return fill(b'A', length as usize + OVERRUN),
    };
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: `text` and its NUL fit into `length` bytes, and `text` is not
    // part of the caller's buffer.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// # Safety
/// `count` is NULL or valid for writing.
unsafe fn device_count(symbol: &'static str, count: *mut c_uint) -> Answer {
    let config = session::begin_in_session(symbol)?;
    let devices = c_uint::try_from(config.devices.len()).map_err(|_| INVALID_ARGUMENT)?;
    let devices = config.device_count.unwrap_or(devices);
    let how = config.misbehaviour(&Names::new(symbol, None));
    // SAFETY: the contract of this function.
    unsafe { put(devices, count, how) }
}

/// # Safety
/// `device` is NULL or valid for writing.
unsafe fn handle(symbol: &'static str, index: c_uint, device: *mut nvmlDevice_t) -> Answer {
    let (handle, how) = session::begin_handle(symbol, index)?;
    // SAFETY: the contract of this function.
    unsafe { put(handle, device, how) }
}

/// # Safety
/// `info` is NULL or valid for writing.
unsafe fn fabric_info(device: nvmlDevice_t, info: *mut nvmlGpuFabricInfo_t) -> Answer {
    let it = session::begin_on("nvmlDeviceGetGpuFabricInfo", device)?;
    let fabric = it.device.fabric.ok_or(NOT_SUPPORTED)?;
    let answer = nvmlGpuFabricInfo_t {
        clusterUuid: fabric.cluster_uuid,
        status: fabric.status,
        cliqueId: fabric.clique_id,
        state: fabric.state,
    };
    // SAFETY: the contract of this function.
    unsafe { put(answer, info, it.misbehaviour) }
}

/// # Safety
/// `info` is NULL or valid for reading a version word and for writing the
/// struct that it announces.
unsafe fn fabric_info_versioned(device: nvmlDevice_t, info: *mut nvmlGpuFabricInfo_v3_t) -> Answer {
    if info.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let OnDevice {
        config,
        device,
        misbehaviour: how,
    } = session::begin_on("nvmlDeviceGetGpuFabricInfoV", device)?;
    // SAFETY: every version begins with this word.
    let version = unsafe { info.cast::<c_uint>().read() };
    if version >> 24 > config.fabric_info_version {
        return Err(VERSION_MISMATCH);
    }
    let fabric = device.fabric.ok_or(NOT_SUPPORTED)?;
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
        _ if how == Some(Misbehaviour::IgnoresVersion) => unsafe { put(v2, info.cast(), how) },
        // SAFETY: the caller announced a struct of this size.
        VERSION_3 => unsafe { put(v3, info, how) },
        // SAFETY: the caller announced a struct of this size.
        VERSION_2 => unsafe { put(v2, info.cast(), how) },
        _ => Err(VERSION_MISMATCH),
    }
}

const VERSION_2: c_uint = 0x0200_0024;
const VERSION_3: c_uint = 0x0300_0028;
const _: () = {
    assert!(size_of::<nvmlGpuFabricInfo_t>() == 28);
    assert!(size_of::<nvmlGpuFabricInfo_v2_t>() == 0x24);
    assert!(size_of::<nvmlGpuFabricInfo_v3_t>() == 0x28);
};
