//! A `libcuda.so.1` that needs no GPU, for the program [`probe.c`](../probe.c) in a container.
//!
//! Its GPUs are the nodes `/dev/nvidia0` to `/dev/nvidia31` that the process may open. Opening such a node fails with
//! `ENXIO` on a machine without the driver, but with `EPERM` if the container's device cgroup forbids it.

#![expect(unsafe_code, reason = "it is a C library")]

use std::ffi::{c_int, c_uint};
use std::fs::File;

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const NO_DEVICE: c_int = 100;

/// CUDA 13.0.
const VERSION: c_int = 13000;

/// The most GPUs that it looks for.
const MAX_GPUS: u32 = 32;

/// Checks that there is a GPU.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuInit(flags: c_uint) -> c_int {
    match (flags, count()) {
        (0, 0) => NO_DEVICE,
        (0, _) => SUCCESS,
        _ => INVALID_VALUE,
    }
}

/// Writes the newest CUDA version that the driver supports.
///
/// # Safety
///
/// `version` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { put(VERSION, version) }
}

/// Writes the number of GPUs.
///
/// # Safety
///
/// `number` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDeviceGetCount(number: *mut c_int) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { put(count(), number) }
}

/// # Safety
///
/// `to` is NULL or valid for writing.
unsafe fn put(value: c_int, to: *mut c_int) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the contract of this function.
    unsafe { to.write(value) };
    SUCCESS
}

fn count() -> c_int {
    let may_open = |index: &u32| {
        let path = format!("/dev/nvidia{index}");
        match File::options().read(true).write(true).open(path) {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENXIO),
        }
    };
    let gpus = (0..MAX_GPUS).filter(may_open).count();
    c_int::try_from(gpus).unwrap_or(c_int::MAX)
}
