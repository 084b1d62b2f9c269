//! Writes results into the caller's memory, correctly or not.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t,
};

use crate::config::Misbehaviour;

/// The result of a call: an error is the code that it returns.
pub(crate) type Outcome = Result<(), nvmlReturn_t>;

/// The code that a call returns.
pub(crate) fn code(outcome: Outcome) -> nvmlReturn_t {
    match outcome {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

/// The number of bytes that an overrun writes past the caller's buffer.
const OVERRUN: usize = 256;

/// Writes a value, or misbehaves.
///
/// # Safety
/// `to` is NULL or valid for writing; with [`Misbehaviour::Overrun`], so are
/// [`OVERRUN`] bytes past it.
pub(crate) unsafe fn put<T>(value: T, to: *mut T, misbehaviour: Option<Misbehaviour>) -> Outcome {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if misbehaviour == Some(Misbehaviour::WritesNothing) {
        return Ok(());
    }
    // SAFETY: not NULL, so valid by the contract.
    unsafe { to.write(value) };
    match misbehaviour {
        // SAFETY: valid for a whole `T`.
        Some(Misbehaviour::Garbage) => unsafe { to.write_bytes(0xff, 1) },
        // SAFETY: the contract of this function.
        Some(Misbehaviour::Overrun) => unsafe { to.add(1).cast::<u8>().write_bytes(0xaa, OVERRUN) },
        _ => {}
    }
    Ok(())
}

/// Writes a text and its NUL, or misbehaves.
///
/// # Safety
/// `to` is NULL or valid for writing `length` bytes; with
/// [`Misbehaviour::Overrun`], so are [`OVERRUN`] bytes past them.
pub(crate) unsafe fn put_text(
    text: &str,
    to: *mut c_char,
    length: c_uint,
    misbehaviour: Option<Misbehaviour>,
) -> Outcome {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let fill = |byte, bytes| {
        // SAFETY: the contract of this function; only `Misbehaviour::Overrun`
        // writes more than `length` bytes.
        unsafe { to.cast::<u8>().write_bytes(byte, bytes) };
        Ok(())
    };
    let text = match misbehaviour {
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
