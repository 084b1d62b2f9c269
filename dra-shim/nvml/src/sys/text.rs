//! Texts that a library writes.

use std::ffi::{CStr, c_char, c_uint};

use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE,
};

use super::padded::Padded;
use crate::nvml_failure::NvmlFailure;

/// The size of every text buffer, in bytes. A driver's version needs 80.
pub(super) const TEXT_SIZE: c_uint = 96;
const _: () = assert!(NVML_DEVICE_NAME_V2_BUFFER_SIZE == TEXT_SIZE);
const _: () = assert!(NVML_DEVICE_UUID_V2_BUFFER_SIZE == TEXT_SIZE);

/// A buffer for a text of at most [`TEXT_SIZE`] bytes.
pub(super) struct TextBuffer(Padded<[u8; TEXT_SIZE as usize]>);

// === impl TextBuffer ===

impl TextBuffer {
    pub(super) fn new() -> Self {
        Self(Padded::new([0; TEXT_SIZE as usize]))
    }

    /// Valid for writing [`TEXT_SIZE`] bytes.
    pub(super) fn as_mut_ptr(&mut self) -> *mut c_char {
        (&raw mut self.0).cast()
    }

    /// The text that `call` wrote.
    pub(super) fn read(&self, call: &'static str) -> Result<String, NvmlFailure> {
        checked_text(call, &self.0.value)
    }
}

/// The text up to the NUL in `buffer`: not empty, UTF-8 and without control characters.
pub(super) fn checked_text(call: &'static str, buffer: &[u8]) -> Result<String, NvmlFailure> {
    let text =
        CStr::from_bytes_until_nul(buffer).map_err(|_| NvmlFailure::Unterminated { call })?;
    let text = text.to_str().map_err(|_| NvmlFailure::NotText { call })?;
    if text.is_empty() {
        return Err(NvmlFailure::WroteNothing { call });
    }
    if text.contains(char::is_control) {
        return Err(NvmlFailure::NotText { call });
    }
    Ok(text.to_owned())
}
