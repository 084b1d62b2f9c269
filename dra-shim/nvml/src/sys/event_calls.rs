//! Events of GPUs: errors, changes of the MIG configuration.

use std::ffi::c_ulonglong;
use std::mem::size_of;
use std::ptr;
use std::time::Duration;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t};
use serde::{Deserialize, Serialize};

use super::gpu_calls::UNWRITTEN;
use super::padded::Padded;
use super::session::{Device, Library, Session};
use super::symbol::required;
use crate::nvml_failure::{NvmlCode, NvmlFailure};

const CREATE: &str = "nvmlEventSetCreate";
const FREE: &str = "nvmlEventSetFree";
const SUPPORTED: &str = "nvmlDeviceGetSupportedEventTypes";
const REGISTER: &str = "nvmlDeviceRegisterEvents";
pub(crate) const WAIT: &str = "nvmlEventSetWait_v2";

/// The id of an instance that an event does not have.
const NO_INSTANCE: u32 = u32::MAX;

/// A type of event before the call: no event has all types.
const NO_TYPE: c_ulonglong = c_ulonglong::MAX;

const _: () = assert!(size_of::<nvmlEventData_t>() == 32);

/// A set of events for which GPUs are registered. Dropping it frees it.
pub struct EventSet<'s> {
    library: &'s Library,
    handle: nvmlEventSet_t,
    /// The registered GPUs.
    gpus: Vec<(nvmlDevice_t, String)>,
}

/// An event of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuEvent {
    /// The UUID of the GPU.
    pub gpu: String,
    /// The type: a bit of `nvml.h`, such as [`XID`](Self::XID).
    pub event_type: u64,
    /// The code of an XID; otherwise a number that depends on the type.
    pub data: u64,
    /// The GPU instance that the event concerns, if it concerns one.
    pub gpu_instance: Option<u32>,
    /// The compute instance that the event concerns, if it concerns one.
    pub compute_instance: Option<u32>,
}

// === impl GpuEvent ===

impl GpuEvent {
    /// The type of a critical error.
    pub const XID: u64 = 0x8;
    /// The type of a change of the MIG configuration.
    pub const MIG_CONFIG_CHANGE: u64 = 0x100;
    /// The type of an error after which the GPU cannot be used.
    pub const GPU_UNAVAILABLE: u64 = 0x4000;
    /// The type of a change of the recovery action.
    pub const RECOVERY_ACTION: u64 = 0x8000;
}

// === impl Session ===

impl Session {
    /// A set without events.
    pub fn event_set(&self) -> Result<EventSet<'_>, NvmlFailure> {
        let lib = &self.library.lib;
        let create = required(&lib.nvmlEventSetCreate, CREATE)?;
        // Looked up before the set exists: without it, the set could not be freed.
        required(&lib.nvmlEventSetFree, FREE)?;
        let mut set: Padded<nvmlEventSet_t> = Padded::new(ptr::null_mut());
        // SAFETY: the session is open, and the pointer is valid for more than the one handle that is written.
        self.library
            .call(CREATE, || unsafe { create((&raw mut set).cast()) })?;
        if set.value.is_null() {
            return Err(NvmlFailure::WroteNothing { call: CREATE });
        }
        Ok(EventSet {
            library: &self.library,
            handle: set.value,
            gpus: Vec::new(),
        })
    }
}

// === impl EventSet ===

impl<'s> EventSet<'s> {
    /// Adds the events of a GPU with these types, as far as the GPU has them. Returns the types that were added.
    pub fn register(&mut self, device: &Device<'s>, types: u64) -> Result<u64, NvmlFailure> {
        let lib = &self.library.lib;
        let supported = required(&lib.nvmlDeviceGetSupportedEventTypes, SUPPORTED)?;
        let register = required(&lib.nvmlDeviceRegisterEvents, REGISTER)?;
        let mut has = Padded::new(NO_TYPE);
        // SAFETY: the handle is of the session that `self` borrows, and the pointer is valid for more than the one
        // number that is written.
        self.library.call(SUPPORTED, || unsafe {
            supported(device.handle, (&raw mut has).cast())
        })?;
        if has.value == NO_TYPE {
            return Err(NvmlFailure::WroteNothing { call: SUPPORTED });
        }
        let types = types & has.value;
        let uuid = device.uuid()?;
        // SAFETY: both handles are of the session that `self` borrows.
        self.library.call(REGISTER, || unsafe {
            register(device.handle, types, self.handle)
        })?;
        self.gpus.push((device.handle, uuid));
        Ok(types)
    }

    /// Waits for the next event. `None`: there was none in time.
    pub fn wait(&self, timeout: Duration) -> Result<Option<GpuEvent>, NvmlFailure> {
        let wait = required(&self.library.lib.nvmlEventSetWait_v2, WAIT)?;
        let timeout = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let mut data = Padded::new(nvmlEventData_t {
            device: ptr::null_mut(),
            eventType: NO_TYPE,
            eventData: 0,
            gpuInstanceId: UNWRITTEN,
            computeInstanceId: UNWRITTEN,
        });
        // SAFETY: the set is of the session that `self` borrows, and the buffer is larger than the struct.
        let waited = self.library.call(WAIT, || unsafe {
            wait(self.handle, (&raw mut data).cast(), timeout)
        });
        match waited {
            Ok(()) => {}
            Err(NvmlFailure::Returned { code, .. }) if code == NvmlCode::TIMEOUT => {
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        let data = data.value;
        if data.device.is_null() || data.eventType == NO_TYPE {
            return Err(NvmlFailure::WroteNothing { call: WAIT });
        }
        let gpu = match self.gpus.iter().find(|it| it.0 == data.device) {
            Some((_, uuid)) => uuid.clone(),
            None => Device {
                library: self.library,
                handle: data.device,
            }
            .uuid()?,
        };
        let instance = |id| (id != NO_INSTANCE && id != UNWRITTEN).then_some(id);
        Ok(Some(GpuEvent {
            gpu,
            event_type: data.eventType,
            data: data.eventData,
            gpu_instance: instance(data.gpuInstanceId),
            compute_instance: instance(data.computeInstanceId),
        }))
    }
}

impl Drop for EventSet<'_> {
    fn drop(&mut self) {
        if let Ok(free) = required(&self.library.lib.nvmlEventSetFree, FREE) {
            // SAFETY: the set exists, and is not used any more. An error does not affect the results.
            let _ = self.library.call(FREE, || unsafe { free(self.handle) });
        }
    }
}
