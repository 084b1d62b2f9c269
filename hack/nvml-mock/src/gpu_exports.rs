//! The functions of `nvml.h` about GPUs. Each returns a fact of the device: one that is absent is not supported, a
//! failure is its code.
//!
//! # Safety
//!
//! As in NVML, pointers are NULL or valid for the values that `nvml.h` documents.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use gpu_inventory::Fact;
use nvml_wrapper_sys::bindings::{
    field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvmlDevice_t, nvmlDeviceAddressingMode_t,
    nvmlFieldValue_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlPciInfo_t,
    nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_UNKNOWN as UNKNOWN, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    nvmlReturn_t, nvmlValue_t,
};

use crate::session;
use crate::write::{Outcome, code, put, put_text};

const ADDRESSING_V1: c_uint = 0x0100_0008;
const MEMORY_V2: c_uint = 0x0200_0028;
/// `NVML_VALUE_TYPE_UNSIGNED_INT`.
const UNSIGNED_INT: c_uint = 1;

/// The value of a fact, or the code that a call about it returns.
pub(crate) fn known<T: Clone>(fact: &Fact<T>) -> Result<T, nvmlReturn_t> {
    match fact {
        Fact::Known(value) => Ok(value.clone()),
        Fact::Absent => Err(NOT_SUPPORTED),
        Fact::Failed(failure) => Err(failure.code.unwrap_or(UNKNOWN)),
    }
}

/// A function that writes one number of the device's facts.
macro_rules! numbers {
    ($($(#[$doc:meta])* $symbol:ident => $fact:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $symbol(device: nvmlDevice_t, number: *mut c_uint) -> nvmlReturn_t {
            // SAFETY: the contract of this module.
            code(session::begin_on_device(stringify!($symbol), device).and_then(|call| unsafe {
                put(c_uint::from(known(&call.device()?.facts.$fact)?), number, call.misbehaviour)
            }))
        }
    )*};
}

numbers! {
    /// Writes the minor.
    nvmlDeviceGetMinorNumber => minor;
    /// Writes the brand.
    nvmlDeviceGetBrand => brand;
    /// Writes the architecture.
    nvmlDeviceGetArchitecture => architecture;
    /// Writes the module id.
    nvmlDeviceGetModuleId => module_id;
    /// Writes the virtualization mode.
    nvmlDeviceGetVirtualizationMode => virtualization_mode;
    /// Writes the persistence mode.
    nvmlDeviceGetPersistenceMode => persistence_mode;
    /// Writes the compute mode.
    nvmlDeviceGetComputeMode => compute_mode;
    /// Writes the index.
    nvmlDeviceGetIndex => index;
}

/// Writes the driver's version.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlSystemGetDriverVersion(
    version: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_in_session("nvmlSystemGetDriverVersion")
            // SAFETY: the contract of this module.
            .and_then(|(config, misbehaviour)| unsafe {
                put_text(&config.driver_version, version, length, misbehaviour)
            }),
    )
}

/// Writes the CUDA version.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(
    version: *mut c_int,
) -> nvmlReturn_t {
    code(
        session::begin_in_session("nvmlSystemGetCudaDriverVersion_v2")
            // SAFETY: the contract of this module.
            .and_then(|(config, misbehaviour)| unsafe {
                put(config.cuda_version, version, misbehaviour)
            }),
    )
}

/// Writes the CUDA version, as version 2 does.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(
    version: *mut c_int,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    unsafe { nvmlSystemGetCudaDriverVersion_v2(version) }
}

/// Writes the PCI address.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(
    device: nvmlDevice_t,
    info: *mut nvmlPciInfo_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { pci_info(device, info) })
}

/// Writes the major and minor compute capability.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: nvmlDevice_t,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetCudaComputeCapability", device).and_then(|call| {
            let capability = known(&call.device()?.facts.compute_capability)?;
            let number = |it| c_int::try_from(it).map_err(|_| UNKNOWN);
            // SAFETY: the contract of this module.
            unsafe {
                put(number(capability.0)?, major, call.misbehaviour)?;
                put(number(capability.1)?, minor, call.misbehaviour)
            }
        }),
    )
}

/// Writes the memory.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetMemoryInfo(
    device: nvmlDevice_t,
    memory: *mut nvmlMemory_t,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetMemoryInfo", device).and_then(|call| {
            let total: c_ulonglong = known(&call.device()?.facts.memory)?;
            let value = nvmlMemory_t {
                total,
                free: total,
                used: 0,
            };
            // SAFETY: the contract of this module.
            unsafe { put(value, memory, call.misbehaviour) }
        }),
    )
}

/// Writes the memory in version 2.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: nvmlDevice_t,
    memory: *mut nvmlMemory_v2_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { memory_v2(device, memory) })
}

/// Writes the addressing mode.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetAddressingMode(
    device: nvmlDevice_t,
    mode: *mut nvmlDeviceAddressingMode_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { addressing_mode(device, mode) })
}

/// Writes the current and the pending MIG mode.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetMigMode", device).and_then(|call| {
            let mig = known(&call.device()?.facts.mig)?;
            // SAFETY: the contract of this module.
            unsafe {
                put(mig.enabled.into(), current, call.misbehaviour)?;
                put(mig.pending.into(), pending, call.misbehaviour)
            }
        }),
    )
}

/// Writes field values; only the recovery action is known.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { field_values(device, count, values) })
}

/// # Safety
/// `info` is NULL or valid for writing.
unsafe fn pci_info(device: nvmlDevice_t, info: *mut nvmlPciInfo_t) -> Outcome {
    let call = session::begin_on_device("nvmlDeviceGetPciInfo_v3", device)?;
    let address = known(&call.device()?.facts.pci)?.to_string();
    let mut value = nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        pciDeviceId: known(&call.device()?.facts.device_id).unwrap_or(0) << 16 | 0x10de,
        pciSubSystemId: 0,
        busId: [0; 32],
    };
    // The driver writes a domain of eight digits, in capitals.
    let (domain, rest) = address.split_once(':').ok_or(UNKNOWN)?;
    let text = format!("{domain:0>8}:{rest}").to_uppercase();
    for (to, byte) in value.busId.iter_mut().zip(text.bytes()) {
        // `c_char` is signed on one architecture and unsigned on the other.
        *to = c_char::from_ne_bytes(byte.to_ne_bytes());
    }
    // SAFETY: the contract of this function.
    unsafe { put(value, info, call.misbehaviour) }
}

/// # Safety
/// `memory` is NULL or valid for reading its version and for writing.
unsafe fn memory_v2(device: nvmlDevice_t, memory: *mut nvmlMemory_v2_t) -> Outcome {
    if memory.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let call = session::begin_on_device("nvmlDeviceGetMemoryInfo_v2", device)?;
    // SAFETY: the struct begins with this word.
    if unsafe { (*memory).version } != MEMORY_V2 {
        return Err(VERSION_MISMATCH);
    }
    let total: c_ulonglong = known(&call.device()?.facts.memory)?;
    let value = nvmlMemory_v2_t {
        version: MEMORY_V2,
        total,
        reserved: 0,
        free: total,
        used: 0,
    };
    // SAFETY: the contract of this function.
    unsafe { put(value, memory, call.misbehaviour) }
}

/// # Safety
/// `mode` is NULL or valid for reading its version and for writing.
unsafe fn addressing_mode(device: nvmlDevice_t, mode: *mut nvmlDeviceAddressingMode_t) -> Outcome {
    if mode.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let call = session::begin_on_device("nvmlDeviceGetAddressingMode", device)?;
    // SAFETY: the struct begins with this word.
    if unsafe { (*mode).version } != ADDRESSING_V1 {
        return Err(VERSION_MISMATCH);
    }
    let value = nvmlDeviceAddressingMode_t {
        version: ADDRESSING_V1,
        value: known(&call.device()?.facts.addressing_mode)?,
    };
    // SAFETY: the contract of this function.
    unsafe { put(value, mode, call.misbehaviour) }
}

/// # Safety
/// `values` is NULL or valid for reading and writing `count` values.
unsafe fn field_values(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> Outcome {
    let call = session::begin_on_device("nvmlDeviceGetFieldValues", device)?;
    if values.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let action = known(&call.device()?.facts.recovery_action);
    for index in 0..usize::try_from(count).map_err(|_| INVALID_ARGUMENT)? {
        // SAFETY: the contract of this function.
        let value = unsafe { &mut *values.add(index) };
        let answer = match value.fieldId {
            NVML_FI_DEV_GET_GPU_RECOVERY_ACTION => action,
            _ => Err(NOT_SUPPORTED),
        };
        value.valueType = UNSIGNED_INT;
        value.nvmlReturn = answer.err().unwrap_or(SUCCESS);
        value.value = nvmlValue_t {
            uiVal: answer.unwrap_or(0),
        };
    }
    Ok(())
}
