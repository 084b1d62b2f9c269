//! Why there is no registration, and why the runtime did not update containers.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use dra_common::Advice;

use crate::events::Events;
use crate::refusal::Refusal;
use crate::trunk::{CallError, TrunkError};

/// Why the plugin is not registered. The service goes on trying, except on a connection
/// that it was given or has inherited.
///
/// `Display` has one sentence, without its `source`; [`State`](crate::State)'s has both.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "look into the runtime's log at this time")]
pub enum ConnectionError {
    /// There is no connection to the runtime's socket. The operating system's reason is
    /// the `source`.
    #[error("cannot connect to {}", path.display())]
    #[advice(code = "connect", hint = connect_hint(source.kind()))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The runtime has closed the connection: it has ended or restarted, it gave up
    /// waiting for the plugin, or NRI in it has been switched off.
    #[error("the runtime has closed the connection")]
    #[advice(code = "closed")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection to the runtime broke")]
    #[advice(code = "broken")]
    Broken(#[source] io::Error),
    /// What came is not NRI. Nothing after it can be understood.
    #[error("what came from the runtime is not NRI: {0}")]
    #[advice(code = "protocol", hint = "check that the socket is the one of NRI")]
    Protocol(String),
    /// The runtime reads nothing of what it is sent.
    #[error("the runtime has read nothing for ten seconds")]
    #[advice(code = "not-read")]
    NotRead,
    /// The runtime refuses the registration.
    #[error("the runtime refuses the registration: {0}")]
    #[advice(code = "registration", hint = "check the plugin's index and name")]
    Registration(String),
    /// The runtime has accepted the connection and does nothing more.
    #[error("the runtime did not {step} within {} s", limit.as_secs())]
    #[advice(code = "silent")]
    Unresponsive {
        /// What it did not do.
        step: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The plugin's `configure` or `synchronize` refused.
    #[error("the plugin refused: {0}")]
    #[advice(code = "refused", hint = "see the plugin's reason")]
    Refused(Refusal),
    /// The plugin's method of this name, `configure` or `synchronize`, did not return in
    /// the time that it had.
    #[error("the plugin's {method} did not return within {}", seconds(*limit))]
    #[advice(
        code = "late",
        hint = "put slow work into a task of its own, and answer without it"
    )]
    Late {
        /// Which.
        method: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The plugin's method of this name, `configure` or `synchronize`, panicked.
    #[error("the plugin's {0} panicked")]
    #[advice(code = "panicked", hint = "look for the panic in the plugin's own log")]
    Panicked(&'static str),
    /// The runtime knows none of the plugin's events.
    #[error("the runtime {runtime} knows none of the plugin's events: {events}")]
    #[advice(
        code = "no-known-event",
        hint = "use a newer runtime: NRI 0.10 or later"
    )]
    NoKnownEvent {
        /// Its name and version.
        runtime: String,
        /// The plugin's events.
        events: Events,
    },
}

/// Why the runtime has not updated containers, or may not have.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum UpdateError {
    /// There is no registration at the moment.
    #[error("the plugin is not registered with the runtime")]
    #[advice(
        code = "not-registered",
        hint = "wait until the service's state is registered, which says why it is not"
    )]
    NotRegistered,
    /// The connection was lost, so that nothing is known of the updates.
    #[error("the connection to the runtime was lost during the update")]
    #[advice(
        code = "lost",
        hint = "see in the next synchronize what the containers have, and update them again"
    )]
    Lost,
    /// The runtime did not answer, so that nothing is known of the updates.
    #[error("the runtime did not answer the update within {} s", .0.as_secs())]
    #[advice(
        code = "timed-out",
        hint = "look into the runtime's log at this time, and await no update in a method of \
                the plugin"
    )]
    TimedOut(Duration),
    /// The runtime refuses.
    #[error("the runtime refuses the update: {0}")]
    #[advice(
        code = "refused",
        hint = "look into the runtime's log for the update that failed, or set its \
                ignore_failure"
    )]
    Refused(String),
    /// More than a message can carry: at most 4 MiB.
    #[error("the update is too long: {0} bytes, where 4194304 are the most")]
    #[advice(code = "too-long", hint = "make several updates of it")]
    TooLong(u32),
}

fn connect_hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => {
            "mount the directory of the socket, and switch NRI on in the runtime \
             (containerd before 2.0: [plugins.\"io.containerd.nri.v1.nri\"] disable = false)"
        }
        io::ErrorKind::ConnectionRefused => {
            "start the runtime: the socket is that of one that has ended"
        }
        io::ErrorKind::PermissionDenied => {
            "run the plugin as root: the socket and its directory are root's"
        }
        _ => "check that the path is that of the runtime's NRI socket",
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

/// `1.8 s`; below a second two digits: `0.36 s`.
pub(crate) fn seconds(time: Duration) -> String {
    let digits = if time < Duration::from_secs(1) { 2 } else { 1 };
    format!("{:.digits$} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_below_a_second_has_two_digits() {
        assert_eq!(seconds(Duration::from_millis(1800)), "1.8 s");
        assert_eq!(seconds(Duration::from_secs(15)), "15.0 s");
        assert_eq!(seconds(Duration::from_millis(450)), "0.45 s");
        assert_eq!(seconds(Duration::from_millis(360)), "0.36 s");
    }

    #[test]
    fn the_hint_for_a_connection_is_about_its_reason() {
        for (kind, says) in [
            (io::ErrorKind::NotFound, "switch NRI on"),
            (io::ErrorKind::ConnectionRefused, "start the runtime"),
            (io::ErrorKind::PermissionDenied, "as root"),
            (io::ErrorKind::NotADirectory, "check that the path"),
        ] {
            let (path, source) = ("/x".into(), io::Error::from(kind));
            let error = ConnectionError::Connect { path, source };
            assert!(error.hint().contains(says), "{kind}: {}", error.hint());
        }
    }
}
