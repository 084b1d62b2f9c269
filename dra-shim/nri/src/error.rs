//! Errors of registrations and of container updates.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use dra_common::Advice;

use crate::events::Events;
use crate::refusal::Refusal;
use crate::trunk::{CallError, TrunkError};

/// Why the plugin is not registered. The service retries, except on a given or inherited
/// connection.
///
/// `Display` has one sentence, without the `source`; [`State`](crate::State)'s has both.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "check the runtime's log around the time of this message")]
pub enum ConnectionError {
    /// The connection to the runtime's socket failed. The `source` is the operating system's
    /// error.
    #[error("cannot connect to {}", path.display())]
    #[advice(code = "connect", hint = connect_hint(source.kind()))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The runtime has closed the connection: it has ended or restarted, the plugin was too
    /// late, or NRI was disabled.
    #[error("the runtime has closed the connection")]
    #[advice(code = "closed")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection to the runtime broke")]
    #[advice(code = "broken")]
    Broken(#[source] io::Error),
    /// The received bytes are not NRI. The connection is unusable from then on.
    #[error("the runtime sent data that is not NRI: {0}")]
    #[advice(
        code = "protocol",
        hint = "check that the socket is the runtime's NRI socket"
    )]
    Protocol(String),
    /// The runtime does not read from the connection.
    #[error("the runtime has not read from the connection for ten seconds")]
    #[advice(code = "not-read")]
    NotRead,
    /// The runtime refuses the registration.
    #[error("the runtime refuses the registration: {0}")]
    #[advice(code = "registration", hint = "check the plugin's index and name")]
    Registration(String),
    /// The runtime has accepted the connection and does not continue.
    #[error("the runtime did not {step} within {} s", limit.as_secs())]
    #[advice(code = "silent")]
    Unresponsive {
        /// The missing step.
        step: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The plugin's `configure` or `synchronize` returned a refusal.
    #[error("the plugin refused: {0}")]
    #[advice(code = "refused", hint = "the message contains the plugin's reason")]
    Refused(Refusal),
    /// The plugin's `configure` or `synchronize` did not return in time.
    #[error("the plugin's {method} did not return within {}", seconds(*limit))]
    #[advice(
        code = "late",
        hint = "run slow work in a separate task, and return without waiting for that task"
    )]
    Late {
        /// The method.
        method: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The plugin's `configure` or `synchronize` panicked.
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

/// Why an update of containers failed, or may have failed.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum UpdateError {
    /// The plugin is not registered now.
    #[error("the plugin is not registered with the runtime")]
    #[advice(
        code = "not-registered",
        hint = "wait until the service's state is Registered; the states Connecting and Ended contain the reason"
    )]
    NotRegistered,
    /// The connection was lost; the result of the updates is unknown.
    #[error("the connection to the runtime was lost during the update")]
    #[advice(
        code = "lost",
        hint = "in the next call of `synchronize`, check whether the containers have the update; if not, repeat the update"
    )]
    Lost,
    /// The runtime did not answer; the result of the updates is unknown.
    #[error("the runtime did not respond to the update within {} s", .0.as_secs())]
    #[advice(
        code = "timed-out",
        hint = "check the runtime's log around the time of this message, and do not await an update in a method of the plugin"
    )]
    TimedOut(Duration),
    /// The runtime refuses the update.
    #[error("the runtime refuses the update: {0}")]
    #[advice(
        code = "refused",
        hint = "find the failed update in the runtime's log, or set ignore_failure in the update"
    )]
    Refused(String),
    /// The update is longer than a message can be: 4 MiB.
    #[error("the update is too long: {0} bytes, the limit is 4194304")]
    #[advice(code = "too-long", hint = "split the update into several updates")]
    TooLong(u32),
}

fn connect_hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => {
            "mount the directory of the socket, and enable NRI in the runtime \
             (containerd before 2.0: [plugins.\"io.containerd.nri.v1.nri\"] disable = false)"
        }
        io::ErrorKind::ConnectionRefused => {
            "start the runtime: its socket exists, but nothing listens on it"
        }
        io::ErrorKind::PermissionDenied => {
            "run the plugin as root: the socket and its directory belong to root"
        }
        _ => "check that the path is the runtime's NRI socket",
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
            CallError::Decode(error) => {
                Self::Refused(format!("the runtime's response cannot be decoded: {error}"))
            }
        }
    }
}

/// Formats a time: `1.8 s`; below a second with two digits: `0.36 s`.
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
    fn the_hint_of_a_connect_error_matches_its_reason() {
        for (kind, part) in [
            (io::ErrorKind::NotFound, "enable NRI"),
            (io::ErrorKind::ConnectionRefused, "start the runtime"),
            (io::ErrorKind::PermissionDenied, "as root"),
            (io::ErrorKind::NotADirectory, "check that the path"),
        ] {
            let (path, source) = ("/x".into(), io::Error::from(kind));
            let error = ConnectionError::Connect { path, source };
            assert!(error.hint().contains(part), "{kind}: {}", error.hint());
        }
    }
}
