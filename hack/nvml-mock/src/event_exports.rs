//! The functions of `nvml.h` about events. The events are lines of a file beside `nvml-mock.json`, to which tests append.
//!
//! # Safety
//!
//! As in NVML, pointers are NULL or valid for the values that `nvml.h` documents.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong};
use std::os::fd::AsFd as _;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_TIMEOUT as TIMEOUT, nvmlReturn_enum_NVML_ERROR_UNKNOWN as UNKNOWN,
    nvmlReturn_t,
};

use crate::config;
use crate::events::{self, Event};
use crate::session;
use crate::write::{Outcome, code, put};

/// How often a wait checks the files even if none beside the configuration changes: their directory may be moved.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// An event set.
struct EventSet {
    /// How much of the file it has read.
    position: u64,
    /// The types of events of each device, by index.
    registered: BTreeMap<usize, u64>,
}

/// The event sets of this process. A handle is the index + 1.
static SETS: Mutex<Vec<Option<EventSet>>> = Mutex::new(Vec::new());

fn sets() -> MutexGuard<'static, Vec<Option<EventSet>>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `with` on the event set of a handle.
fn on_set<T>(
    set: nvmlEventSet_t,
    with: impl FnOnce(&mut Option<EventSet>) -> T,
) -> Result<T, nvmlReturn_t> {
    let index = set.addr().checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    match sets().get_mut(index) {
        Some(slot) if slot.is_some() => Ok(with(slot)),
        _ => Err(INVALID_ARGUMENT),
    }
}

/// Writes the handle of a new event set, which gets the events from now on.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlEventSetCreate(set: *mut nvmlEventSet_t) -> nvmlReturn_t {
    code(
        session::begin_in_session("nvmlEventSetCreate").and_then(|(_, misbehaviour)| {
            let mut sets = sets();
            sets.push(Some(EventSet {
                position: events::end(),
                registered: BTreeMap::new(),
            }));
            let handle = ptr::without_provenance_mut(sets.len());
            // SAFETY: the contract of this module.
            unsafe { put(handle, set, misbehaviour) }
        }),
    )
}

/// Frees an event set.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlEventSetFree(set: nvmlEventSet_t) -> nvmlReturn_t {
    code(session::begin_in_session("nvmlEventSetFree").and_then(|_| on_set(set, |it| *it = None)))
}

/// Writes the types of events that a device has.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(
    device: nvmlDevice_t,
    types: *mut c_ulonglong,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceGetSupportedEventTypes", device)
            // SAFETY: the contract of this module.
            .and_then(|call| unsafe { put(call.config.event_types, types, call.misbehaviour) }),
    )
}

/// Adds events of a device to an event set.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlDeviceRegisterEvents(
    device: nvmlDevice_t,
    types: c_ulonglong,
    set: nvmlEventSet_t,
) -> nvmlReturn_t {
    code(
        session::begin_on_device("nvmlDeviceRegisterEvents", device).and_then(|call| {
            if types & !call.config.event_types != 0 {
                return Err(INVALID_ARGUMENT);
            }
            on_set(set, |it| {
                let registered = it.as_mut().map(|it| &mut it.registered);
                registered.map(|it| it.insert(call.index, types));
            })
        }),
    )
}

/// Waits for an event.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvmlEventSetWait_v2(
    set: nvmlEventSet_t,
    data: *mut nvmlEventData_t,
    timeout_ms: c_uint,
) -> nvmlReturn_t {
    // SAFETY: the contract of this module.
    code(unsafe { wait(set, data, Duration::from_millis(timeout_ms.into())) })
}

/// # Safety
/// `data` is NULL or valid for writing.
unsafe fn wait(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout: Duration) -> Outcome {
    let call = session::begin_wait("nvmlEventSetWait_v2")?;
    let end = Instant::now() + timeout;
    let changes = watch_files().ok_or(UNKNOWN)?;
    loop {
        let next = on_set(set, |it| it.as_mut().and_then(EventSet::next))?;
        if let Some(event) = next {
            let value = nvmlEventData_t {
                device: ptr::without_provenance_mut(event.gpu + 1),
                eventType: event.kind,
                eventData: event.data,
                gpuInstanceId: event.gpu_instance,
                computeInstanceId: event.compute_instance,
            };
            // SAFETY: the contract of this function.
            return unsafe { put(value, data, call.misbehaviour()) };
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TIMEOUT);
        }
        let left = PollTimeout::try_from(left.min(CHECK_EVERY)).unwrap_or(PollTimeout::ZERO);
        // Both fail only if a signal interrupts them.
        let _ = poll(&mut [PollFd::new(changes.as_fd(), PollFlags::POLLIN)], left);
        let _ = changes.read_events();
        call.check()?;
    }
}

/// Becomes readable when a file beside the configuration changes. As with the driver, a wait costs no CPU.
fn watch_files() -> Option<Inotify> {
    let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVE | AddWatchFlags::IN_DELETE;
    changes.add_watch(&config::beside(".")?, flags).ok()?;
    Some(changes)
}

// === impl EventSet ===

impl EventSet {
    /// The next event for which a device is registered.
    fn next(&mut self) -> Option<Event> {
        while let Some(event) = events::read(&mut self.position) {
            let types = self.registered.get(&event.gpu).copied().unwrap_or(0);
            if types & event.kind != 0 {
                return Some(event);
            }
        }
        None
    }
}
