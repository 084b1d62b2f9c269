//! The log of the fake: what happened, in order, and what can be derived from that.

use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::device_health::DeviceHealth;
use crate::observer::Method;

/// One thing that happened between the fake and the plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A kubelet process began; the sockets that exist are new to it.
    Started,
    /// It ended: every connection was cut, and what it held in memory is lost.
    Stopped,
    /// A registration failed; it will be tried again after a growing pause.
    RegistrationFailed {
        /// The socket in the registry directory.
        socket: PathBuf,
        /// What kubelet would log.
        reason: String,
    },
    /// The plugin was notified of its registration; kubelet had recorded it before, see
    /// [`FakeKubelet::endpoints`](super::FakeKubelet::endpoints).
    Registered {
        /// Its name.
        driver: String,
        /// Its service socket.
        endpoint: PathBuf,
        /// Which version of the service its calls will be made in.
        service: ServiceVersion,
    },
    /// The plugin's registration socket is gone, or it failed to take note of its
    /// registration.
    Unregistered {
        /// Its name.
        driver: String,
        /// Its service socket.
        endpoint: PathBuf,
    },
    /// The plugin's service accepted a connection.
    Connected {
        /// Its name.
        driver: String,
        /// Its service socket.
        endpoint: PathBuf,
    },
    /// That connection ended, and not because of kubelet.
    Disconnected {
        /// Its name.
        driver: String,
        /// Its service socket.
        endpoint: PathBuf,
    },
    /// A call was sent.
    Called {
        /// The plugin's name.
        driver: String,
        /// The service socket that it was sent to.
        endpoint: PathBuf,
        /// Which call.
        method: Method,
        /// The claims' UIDs.
        claims: Vec<String>,
    },
    /// A device in an answer that kubelet accepts and that causes a failure later. A plugin
    /// of this library rejects some of them itself.
    InvalidDevice {
        /// The plugin's name.
        driver: String,
        /// The claim's UID.
        claim: String,
        /// The device, and what is wrong with it.
        reason: String,
    },
    /// The health stream carried a list.
    HealthReported {
        /// The plugin's name.
        driver: String,
        /// The list.
        devices: Vec<DeviceHealth>,
    },
    /// The health stream ended or could not be opened; what it reported is forgotten.
    HealthLost {
        /// The plugin's name.
        driver: String,
        /// What kubelet would log.
        reason: String,
    },
    /// The pod's warning event, `FailedPrepareDynamicResources`; Prepare comes again
    /// after [`Times::pod_retry`](super::Times::pod_retry).
    PrepareFailed {
        /// The pod's UID.
        pod: String,
        /// The event's message.
        message: String,
    },
    /// The pod stays, and Unprepare comes again.
    UnprepareFailed {
        /// The pod's UID.
        pod: String,
        /// What kubelet would log.
        message: String,
    },
    /// The node's slices were deleted.
    SlicesDeleted {
        /// The driver whose slices they were; `None` for all drivers, at the start.
        driver: Option<String>,
    },
}

/// A version of the DRA service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceVersion {
    /// `v1.DRAPlugin`.
    V1,
    /// `v1beta1.DRAPlugin`.
    V1beta1,
}

/// The log. Clones write to the same one.
#[derive(Clone, Debug)]
pub(super) struct Log(watch::Sender<Vec<Event>>);

impl Log {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }

    pub(super) fn push(&self, event: Event) {
        tracing::debug!(?event, "fake kubelet");
        self.0.send_modify(|events| events.push(event));
    }

    pub(super) fn snapshot(&self) -> Vec<Event> {
        self.0.borrow().clone()
    }

    pub(super) async fn until(&self, mut condition: impl FnMut(&[Event]) -> bool) {
        let mut events = self.0.subscribe();
        // The sender is in `self`, so this ends with the condition only.
        let _ = events.wait_for(|events| condition(events)).await;
    }
}

/// The service sockets of `driver` that are registered after `events`, the oldest
/// first.
pub(super) fn registered<'a>(events: &'a [Event], driver: &str) -> Vec<&'a Path> {
    let mut endpoints: Vec<&Path> = Vec::new();
    for event in events {
        match event {
            Event::Registered {
                driver: name,
                endpoint,
                ..
            } if name == driver => endpoints.push(endpoint),
            Event::Unregistered {
                driver: name,
                endpoint,
            } if name == driver => endpoints.retain(|other| other != endpoint),
            Event::Stopped => endpoints.clear(),
            _ => {}
        }
    }
    endpoints
}
