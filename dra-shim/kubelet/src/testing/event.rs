//! The fake's log of events.

use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::device_health::DeviceHealth;
use crate::observer::Method;

/// An event between the fake and the plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A kubelet process began; it registers all existing sockets.
    Started,
    /// The process ended: every connection was cut, and its state in memory is lost.
    Stopped,
    /// A registration failed; kubelet retries with back-off.
    RegistrationFailed {
        /// The socket in the registry directory.
        socket: PathBuf,
        /// kubelet's log message.
        reason: String,
    },
    /// The plugin was notified of its registration. kubelet records it before that, see
    /// [`FakeKubelet::endpoints`](super::FakeKubelet::endpoints).
    Registered {
        /// Its name.
        driver: String,
        /// Its service socket.
        endpoint: PathBuf,
        /// The version of the service that kubelet will call.
        service: ServiceVersion,
    },
    /// The plugin was unregistered: its registration socket was removed, or it did not
    /// acknowledge the notification.
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
    /// That connection ended, and kubelet did not close it.
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
        /// The service socket that received the call.
        endpoint: PathBuf,
        /// The method.
        method: Method,
        /// The claims' UIDs.
        claims: Vec<String>,
    },
    /// An answer has a device that kubelet accepts but that causes a failure later. Plugins of
    /// this library reject some of these devices themselves.
    InvalidDevice {
        /// The plugin's name.
        driver: String,
        /// The claim's UID.
        claim: String,
        /// The device and its problem.
        reason: String,
    },
    /// The health stream sent a list.
    HealthReported {
        /// The plugin's name.
        driver: String,
        /// The list.
        devices: Vec<DeviceHealth>,
    },
    /// The health stream ended or could not be opened; its reports are discarded.
    HealthLost {
        /// The plugin's name.
        driver: String,
        /// kubelet's log message.
        reason: String,
    },
    /// The pod got the warning event `FailedPrepareDynamicResources`; kubelet retries after
    /// [`Times::pod_retry`](super::Times::pod_retry).
    PrepareFailed {
        /// The pod's UID.
        pod: String,
        /// The event's message.
        message: String,
    },
    /// An Unprepare failed; the pod remains, and kubelet retries.
    UnprepareFailed {
        /// The pod's UID.
        pod: String,
        /// kubelet's log message.
        message: String,
    },
    /// The node's slices were deleted.
    SlicesDeleted {
        /// The driver of the slices; `None` for all drivers, at the start of kubelet.
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

/// The log of events. Clones share it.
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
        // The sender is in `self`, so this returns only if the condition holds.
        let _ = events.wait_for(|events| condition(events)).await;
    }
}

/// The service sockets of `driver` that are registered after `events`, oldest first.
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
