//! What the state of the node's hardware allows: whether the channel is
//! published, whether the plugin is ready, what Prepare answers.
//!
//! | state | publish | ready | Prepare |
//! |---|---|---|---|
//! | `Clique`, `CliqueDegraded` | yes | yes | prepared |
//! | `NoClique` | yes | yes | permanent error |
//! | `NotReadYet`, `Pending`, `LibraryLost`, `NvmlFailed`, `NoAnswer` | yes | no | retried |
//! | `NoLibrary`, or any state without a channel major | no | no | retried |
//!
//! The states are those of [`NodeFabricState`].

use imex_cdi::{Major, ReadMajorError};
use nvml_clique::{Clique, Fabric, NodeFabricState};

use crate::error::PrepareError;
use crate::text::{error_chain, with_hint};

/// A snapshot of the node's hardware.
#[derive(Debug)]
pub struct Hardware {
    /// The state of the node's fabric.
    pub state: NodeFabricState,
    /// The details of that state.
    pub fabric: Fabric,
    /// The major of IMEX channels, read anew: a reloaded driver may change it.
    pub major: Result<Major, ReadMajorError>,
}

impl Hardware {
    /// Whether the node offers its channel to the scheduler. A driver that is lost
    /// later leaves the slice as it was: claims may hold the device.
    pub fn publishes(&self) -> bool {
        self.state != NodeFabricState::NoLibrary && self.major.is_ok()
    }

    /// Whether the fabric lets claims be prepared or definitely refused.
    ///
    /// # Errors
    /// Why not, in one line with the fix.
    pub fn fabric_ready(&self) -> Result<(), String> {
        if self.state.is_final() {
            return Ok(());
        }
        Err(with_hint(&self.fabric.to_string(), self.fabric.hint()))
    }

    /// Whether the channel major is known.
    ///
    /// # Errors
    /// Why not, in one line with the fix.
    pub fn major_ready(&self) -> Result<(), String> {
        self.major
            .as_ref()
            .map(drop)
            .map_err(|error| with_hint(&error_chain(error), error.hint()))
    }

    /// The clique that a claim is prepared in.
    pub(crate) fn clique(&self) -> Result<&Clique, PrepareError> {
        match &self.fabric {
            Fabric::Clique(clique) => Ok(clique),
            Fabric::NoClique(none) => Err(PrepareError::NoClique {
                reason: none.to_string(),
            }),
            not_final => Err(PrepareError::FabricNotReady {
                reason: not_final.to_string(),
            }),
        }
    }

    /// The major that a claim's device node gets.
    pub(crate) fn channel_major(&self) -> Result<Major, PrepareError> {
        self.major
            .as_ref()
            .copied()
            .map_err(|error| PrepareError::NoMajor {
                reason: error_chain(error),
            })
    }
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
