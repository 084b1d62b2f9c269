//! What the effects of claims need of the hardware.

use std::fmt;

use gpu_api::TimeSlice;

/// The hardware of a node. Calls may be slow, and end by their own deadline.
pub trait Hardware: fmt::Debug + Send + Sync {
    /// Sets the time slice of the GPU with this UUID.
    ///
    /// # Errors
    /// The GPU has another time slice than wanted, or it is unknown.
    fn set_time_slice(&self, gpu: &str, time_slice: TimeSlice) -> Result<(), HardwareError>;
}

/// Why the hardware is not as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HardwareError {
    /// The driver refuses this setting for this GPU, whenever it is asked.
    #[error("{reason}")]
    NotSupported {
        /// The driver's words.
        reason: String,
    },
    /// The call failed.
    #[error("{reason}")]
    Failed {
        /// Why, in one line.
        reason: String,
    },
}
