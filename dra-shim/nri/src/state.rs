//! Where the registration stands.

use std::fmt;
use std::sync::Arc;

use dra_common::error_chain;

use crate::error::ConnectionError;
use crate::runtime::Runtime;

/// Where the registration stands. `Display` says it in one line for a person, with the
/// error, its sources and what to do about it:
///
/// ```text
/// not registered: cannot connect to /var/run/nri/nri.sock: Permission denied (os error 13); run the plugin as root: the socket and its directory are root's
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum State {
    /// There is none, and the service tries. With why the last try failed, or why the last
    /// registration ended; `None` at first.
    Connecting(Option<Arc<ConnectionError>>),
    /// The runtime has synchronized the plugin, and calls it from here on.
    Registered(Arc<Runtime>),
    /// The service has ended: it was shut down, or the connection is lost that it was given
    /// or has inherited.
    Ended(Option<Arc<ConnectionError>>),
}

// === impl State ===

impl State {
    /// Whether the plugin is registered: whether it is ready, for a probe.
    pub const fn is_registered(&self) -> bool {
        matches!(self, Self::Registered(_))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting(None) => f.write_str("connecting"),
            Self::Connecting(Some(error)) => write!(f, "not registered: {}", describe(error)),
            Self::Registered(runtime) => {
                write!(f, "registered with {} {}", runtime.name, runtime.version)
            }
            Self::Ended(None) => f.write_str("ended"),
            Self::Ended(Some(error)) => write!(f, "ended: {}", describe(error)),
        }
    }
}

fn describe(error: &ConnectionError) -> String {
    format!("{}; {}", error_chain(error), error.hint())
}
