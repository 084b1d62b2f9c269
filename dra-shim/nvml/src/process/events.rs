//! What a process does that waits for the events of GPUs.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::answer;
use crate::fact::{Fact, Failure};
use crate::nvml_failure::NvmlFailure;
use crate::sys::{EventSet, GpuEvent, Session};

/// The types of events for which GPUs are registered, as far as they have them.
const TYPES: u64 = GpuEvent::XID
    | GpuEvent::MIG_CONFIG_CHANGE
    | GpuEvent::GPU_UNAVAILABLE
    | GpuEvent::RECOVERY_ACTION;

/// A GPU whose events are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventGpu {
    /// The index in NVML: only the wanted GPUs are opened.
    pub index: u32,
    /// The UUID.
    pub uuid: String,
}

/// What a process that waits for events reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// There was no event for half the deadline.
    NoEvent,
    /// An event.
    Event(GpuEvent),
    /// The recovery action of a GPU (`nvmlDeviceGpuRecoveryAction_t`) after its event.
    RecoveryAction {
        /// The UUID of the GPU.
        gpu: String,
        /// The number; absent if the driver does not know it.
        action: Fact<u32>,
    },
}

/// Registers the GPUs and sends their events, until the parent closes the socket. Every line is a [`Fact`].
pub(super) fn serve(
    socket: &UnixStream,
    session: &Session,
    gpus: &[EventGpu],
    wait: Duration,
) -> io::Result<()> {
    let mut events = match session.event_set() {
        Ok(events) => events,
        Err(failure) => return answer(socket, &failed(failure)),
    };
    answer(socket, &Fact::Known(Value::Bool(true)))?;
    for gpu in gpus {
        let registered = register(session, &mut events, gpu);
        answer(socket, &registered.map_or_else(Fact::Failed, Fact::Known))?;
    }
    loop {
        let event = match events.wait(wait) {
            Ok(event) => event,
            Err(failure) => return answer(socket, &failed(failure)),
        };
        let Some(event) = event else {
            answer(socket, &Fact::Known(Report::NoEvent))?;
            continue;
        };
        let gpu = event.gpu.clone();
        let of = gpus.iter().find(|it| it.uuid == gpu).map(|it| it.index);
        // The event first: the next call may not return.
        answer(socket, &Fact::Known(Report::Event(event)))?;
        if let Some(index) = of {
            let device = session.device(index);
            let action = Fact::from(device.and_then(|it| it.recovery_action()));
            answer(socket, &Fact::Known(Report::RecoveryAction { gpu, action }))?;
        }
    }
}

/// Returns the registered types.
fn register<'s>(
    session: &'s Session,
    events: &mut EventSet<'s>,
    gpu: &EventGpu,
) -> Result<u64, Failure> {
    let device = session.device(gpu.index)?;
    let uuid = device.uuid()?;
    if uuid != gpu.uuid {
        let reason = format!("returned another GPU: {uuid}");
        return Err(Failure::new("nvmlDeviceGetHandleByIndex_v2", reason));
    }
    let types = events.register(&device, TYPES)?;
    if types & GpuEvent::XID == 0 {
        return Err(Failure::new(
            "nvmlDeviceGetSupportedEventTypes",
            "returned no XIDs",
        ));
    }
    Ok(types)
}

fn failed(failure: NvmlFailure) -> Fact<Value> {
    // A function that the library lacks is no missing property here.
    Fact::Failed(failure.into())
}
