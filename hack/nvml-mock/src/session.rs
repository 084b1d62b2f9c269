//! The beginning of every call: delay, hang, error, and the check for a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED, nvmlReturn_t,
};

use crate::config::{CallNames, Config, Device, Misbehaviour};

/// How often a hang checks whether the file still contains it.
const TICK: Duration = Duration::from_millis(20);

/// Open sessions: NVML counts its initialisations.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

/// A call on a device.
pub(crate) struct DeviceCall {
    pub(crate) config: Arc<Config>,
    pub(crate) index: usize,
    pub(crate) misbehaviour: Option<Misbehaviour>,
}

/// A call that waits.
pub(crate) struct WaitCall(CallNames);

// === impl WaitCall ===

impl WaitCall {
    /// Fails, hangs or aborts if the file says so now.
    pub(crate) fn check(&self) -> Result<(), nvmlReturn_t> {
        faults(&self.0).map(drop)
    }

    pub(crate) fn misbehaviour(&self) -> Option<Misbehaviour> {
        Config::read()?.misbehaviour(&self.0)
    }
}

// === impl DeviceCall ===

impl DeviceCall {
    pub(crate) fn device(&self) -> Result<&Device, nvmlReturn_t> {
        self.config.devices.get(self.index).ok_or(GPU_IS_LOST)
    }
}

/// Begins a call that needs no session.
pub(crate) fn begin(symbol: &'static str) -> Result<(), nvmlReturn_t> {
    begin_named(&CallNames::new(symbol, None)).map(drop)
}

/// Begins a call that needs one.
pub(crate) fn begin_in_session(
    symbol: &'static str,
) -> Result<(Arc<Config>, Option<Misbehaviour>), nvmlReturn_t> {
    let names = CallNames::new(symbol, None);
    let config = begin_named(&names)?;
    require_session()?;
    let misbehaviour = config.misbehaviour(&names);
    Ok((config, misbehaviour))
}

/// Begins a call that waits in a session. The file may let it fail, hang or abort while it waits.
pub(crate) fn begin_wait(symbol: &'static str) -> Result<WaitCall, nvmlReturn_t> {
    let call = WaitCall(CallNames::new(symbol, None));
    begin_named(&call.0)?;
    require_session()?;
    Ok(call)
}

/// Begins a call on a device.
pub(crate) fn begin_on_device(
    symbol: &'static str,
    device: nvmlDevice_t,
) -> Result<DeviceCall, nvmlReturn_t> {
    // Handles count from 1: NULL is not a handle.
    let index = device.addr().checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    begin_on_index(symbol, index)
}

/// Begins a call on the device with `index`, or on what belongs to it.
pub(crate) fn begin_on_index(
    symbol: &'static str,
    index: usize,
) -> Result<DeviceCall, nvmlReturn_t> {
    let names = CallNames::new(symbol, Some(index));
    let config = begin_named(&names)?;
    require_session()?;
    if index >= config.devices.len() {
        // The device existed when the handle was returned.
        return Err(GPU_IS_LOST);
    }
    Ok(DeviceCall {
        misbehaviour: config.misbehaviour(&names),
        index,
        config,
    })
}

/// Begins the call that returns the handle of a device.
pub(crate) fn begin_handle(
    symbol: &'static str,
    index: u32,
) -> Result<(nvmlDevice_t, Option<Misbehaviour>), nvmlReturn_t> {
    let index = index as usize;
    let names = CallNames::new(symbol, Some(index));
    let config = begin_named(&names)?;
    require_session()?;
    if index >= config.devices.len() {
        return Err(INVALID_ARGUMENT);
    }
    let handle = std::ptr::without_provenance_mut(index + 1);
    Ok((handle, config.misbehaviour(&names)))
}

pub(crate) fn open() {
    SESSIONS.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn close() -> Result<(), nvmlReturn_t> {
    SESSIONS
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
        .map(drop)
        .map_err(|_| UNINITIALIZED)
}

fn require_session() -> Result<(), nvmlReturn_t> {
    if SESSIONS.load(Ordering::SeqCst) == 0 {
        return Err(UNINITIALIZED);
    }
    Ok(())
}

fn begin_named(names: &CallNames) -> Result<Arc<Config>, nvmlReturn_t> {
    Config::record(names);
    let config = Config::read().ok_or(DRIVER_NOT_LOADED)?;
    thread::sleep(Duration::from_millis(config.delay_ms(names)));
    faults(names)
}

fn faults(names: &CallNames) -> Result<Arc<Config>, nvmlReturn_t> {
    let mut config = Config::read().ok_or(DRIVER_NOT_LOADED)?;
    while config.hangs(names) {
        thread::sleep(TICK);
        config = Config::read().ok_or(DRIVER_NOT_LOADED)?;
    }
    if config.aborts(names) {
        std::process::abort();
    }
    match config.error(names) {
        Some(code) => Err(code),
        None => Ok(config),
    }
}
