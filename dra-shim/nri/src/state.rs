//! The state of the registration.

use std::fmt;
use std::sync::Arc;

use dra_common::error_chain;

use crate::error::ConnectionError;
use crate::runtime::Runtime;

/// The state of the registration. `Display` has it in one line, with the error, its sources
/// and the hint:
///
/// ```text
/// not registered: cannot connect to /var/run/nri/nri.sock: Permission denied (os error 13); run the plugin as root: the socket and its directory belong to root
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum State {
    /// Not registered; the service retries. Has the error of the last try or of the last
    /// registration; `None` at first.
    Connecting(Option<Arc<ConnectionError>>),
    /// The runtime has synchronized the plugin and calls it from now on.
    Registered(Arc<Runtime>),
    /// The service has ended: by a shutdown, or because a given or inherited connection was
    /// lost.
    Ended(Option<Arc<ConnectionError>>),
}

// === impl State ===

impl State {
    /// Whether the plugin is registered; usable for a readiness probe.
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
