//! What the node's hardware lets us do: the table "state of the node" of the
//! design, as functions of what was last seen.
//!
//! | seen | publish | ready | Prepare |
//! |---|---|---|---|
//! | a clique | yes | yes | prepared |
//! | definitely no clique | yes | yes | permanent error |
//! | fabric unsettled, NVML failing or silent, driver lost since start | yes | no | retried |
//! | no driver library since start, or no channel major | no | no | retried |

use imex_cdi::{Major, ReadMajorError};
use nvml_clique::{Clique, Fabric};

use crate::error::PrepareError;

/// One look at the node's hardware.
#[derive(Debug)]
pub struct World {
    /// The last answer of the fabric probe.
    pub fabric: Fabric,
    /// Whether this process ever found the driver's library. A driver that is
    /// lost later leaves the slice as it was: claims may hold the device.
    pub library_seen: bool,
    /// The major of IMEX channels, read anew: a reloaded driver may change it.
    pub major: Result<Major, ReadMajorError>,
}

impl World {
    /// Whether the node offers its channel to the scheduler.
    pub fn publishes(&self) -> bool {
        let library = !matches!(self.fabric, Fabric::NoLibrary(_)) || self.library_seen;
        library && self.major.is_ok()
    }

    /// Whether the fabric lets claims be prepared or definitely refused.
    ///
    /// # Errors
    /// Why not, in one line with the fix.
    pub fn fabric_ready(&self) -> Result<(), String> {
        if self.fabric.is_final() {
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
            .map_err(|error| with_hint(&with_sources(error), error.hint()))
    }

    /// The clique that a claim is prepared in.
    pub(crate) fn clique(&self) -> Result<&Clique, PrepareError> {
        match &self.fabric {
            Fabric::Clique(clique) => Ok(clique),
            Fabric::NoClique(none) => Err(PrepareError::NoClique {
                reason: none.to_string(),
            }),
            unsettled => Err(PrepareError::FabricNotReady {
                reason: unsettled.to_string(),
            }),
        }
    }

    /// The major that a claim's device node gets.
    pub(crate) fn channel_major(&self) -> Result<Major, PrepareError> {
        self.major
            .as_ref()
            .copied()
            .map_err(|error| PrepareError::NoMajor {
                reason: with_sources(error),
            })
    }
}

/// An error and what caused it, on one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A sentence and its fix, if there is one, on one line.
pub fn with_hint(reason: &str, hint: &str) -> String {
    if hint.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}; {hint}")
    }
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;
