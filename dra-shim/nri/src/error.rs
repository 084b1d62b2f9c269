//! Why there is no registration, and why the runtime did not update containers.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::events::Events;
use crate::refusal::Refusal;
use crate::trunk::{CallError, TrunkError};

/// Why the plugin is not registered. The service goes on trying, except on a connection
/// that it was given or has inherited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The runtime's socket does not accept.
    #[error("nobody accepts connections on {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The runtime has closed the connection: it has ended or restarted, it gave up
    /// waiting for the plugin, or NRI in it has been switched off.
    #[error("the runtime has closed the connection")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection to the runtime broke")]
    Broken(#[source] io::Error),
    /// What came is not NRI. Nothing after it can be understood.
    #[error("what came from the runtime is not NRI: {0}")]
    Protocol(String),
    /// The runtime reads nothing of what it is sent.
    #[error("the runtime has read nothing for ten seconds")]
    NotRead,
    /// The runtime refuses the registration.
    #[error("the runtime refuses the registration: {0}")]
    Registration(String),
    /// The runtime has accepted the connection and does nothing more.
    #[error("the runtime did not {step} within {} s", limit.as_secs())]
    Silent {
        /// What it did not do.
        step: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The plugin refused the configuration, or its synchronization failed.
    #[error("the plugin refused: {0}")]
    Refused(Refusal),
    /// The runtime knows none of the plugin's events.
    #[error("the runtime {runtime} knows none of the plugin's events: {events}")]
    NoKnownEvent {
        /// Its name and version.
        runtime: String,
        /// The plugin's events.
        events: Events,
    },
}

/// Why the runtime has not updated containers, or may not have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// There is no registration at the moment.
    #[error("the plugin is not registered with the runtime")]
    NotRegistered,
    /// The connection was lost, so that nothing is known of the updates.
    #[error("the connection to the runtime was lost during the update")]
    Lost,
    /// The runtime did not answer, so that nothing is known of the updates.
    #[error("the runtime did not answer the update within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The runtime refuses.
    #[error("the runtime refuses the update: {0}")]
    Refused(String),
    /// More than a message can carry: at most 4 MiB.
    #[error("the update is too long: {0} bytes, where 4194304 are the most")]
    TooLong(u32),
}

// === impl ConnectionError ===

impl ConnectionError {
    /// One stable kebab-case word, for metrics and tests.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::Closed => "closed",
            Self::Broken(_) => "broken",
            Self::Protocol(_) => "protocol",
            Self::NotRead => "not-read",
            Self::Registration(_) => "registration",
            Self::Silent { .. } => "silent",
            Self::Refused(_) => "refused",
            Self::NoKnownEvent { .. } => "no-known-event",
        }
    }

    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Connect { .. } => {
                "switch NRI on in the runtime (containerd before 2.0: \
                 [plugins.\"io.containerd.nri.v1.nri\"] disable = false), \
                 and mount its socket's directory"
            }
            Self::Closed | Self::Broken(_) | Self::NotRead | Self::Silent { .. } => {
                "look into the runtime's log at this time"
            }
            Self::Protocol(_) => "check that the socket is the one of NRI",
            Self::Registration(_) => "check the plugin's index and name",
            Self::Refused(_) => "see the plugin's reason",
            Self::NoKnownEvent { .. } => "use a newer runtime: NRI 0.10 or later",
        }
    }
}

impl From<TrunkError> for ConnectionError {
    fn from(error: TrunkError) -> Self {
        match error {
            TrunkError::Closed => Self::Closed,
            TrunkError::Io(error) => Self::Broken(error),
            TrunkError::Frame(error) => Self::Protocol(error.to_string()),
            TrunkError::Message(error) => Self::Protocol(error.to_string()),
            TrunkError::NotRead => Self::NotRead,
        }
    }
}

// === impl UpdateError ===

impl From<CallError> for UpdateError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Closed => Self::Lost,
            CallError::TimedOut(limit) => Self::TimedOut(limit),
            CallError::Refused(status) => Self::Refused(status.message),
            CallError::TooLong(error) => Self::TooLong(error.0),
            CallError::Decode(error) => Self::Refused(format!("its answer is no answer: {error}")),
        }
    }
}

/// An error and all its sources, outermost first.
pub(crate) fn chain(error: &dyn Error) -> String {
    let errors = std::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<_> = errors.map(ToString::to_string).collect();
    messages.join(": ")
}
