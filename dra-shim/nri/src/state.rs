//! Where the registration stands.

use std::sync::Arc;

use crate::error::ConnectionError;
use crate::runtime::Runtime;

/// Where the registration stands.
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
