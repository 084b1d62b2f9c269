//! How often a watch reads, and when it reports a read as hung.

use std::time::Duration;

/// How often a [`FabricWatch`](crate::FabricWatch) reads, and when it reports a
/// read as hung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchConfig {
    pub(crate) pending_pause: Duration,
    pub(crate) final_pause: Duration,
    pub(crate) hung_after: Duration,
}

impl Default for WatchConfig {
    /// Every second while pending, every 30 s once final, hung after 10 s:
    /// NVML takes seconds to initialise where no persistence daemon runs.
    fn default() -> Self {
        Self {
            pending_pause: Duration::from_secs(1),
            final_pause: Duration::from_secs(30),
            hung_after: Duration::from_secs(10),
        }
    }
}

impl WatchConfig {
    /// The pause between two reads unless the state
    /// [is final](crate::NodeFabricState::is_final). A short one notices a
    /// recovery early; a long one opens fewer NVML sessions.
    #[must_use]
    pub fn pending_pause(self, pause: Duration) -> Self {
        Self {
            pending_pause: pause,
            ..self
        }
    }

    /// The pause between two reads once the state is final, which is how late a
    /// lost driver or a moved partition may be noticed.
    #[must_use]
    pub fn final_pause(self, pause: Duration) -> Self {
        Self {
            final_pause: pause,
            ..self
        }
    }

    /// How long a read may take before it is reported as
    /// [`Fabric::NoAnswer`](crate::Fabric::NoAnswer).
    #[must_use]
    pub fn hung_after(self, limit: Duration) -> Self {
        Self {
            hung_after: limit,
            ..self
        }
    }
}
