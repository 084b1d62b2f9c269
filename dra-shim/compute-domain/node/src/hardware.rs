//! A snapshot of the node's hardware, and the decisions that depend on it.

use compute_domain_api::names::clique_of_pool;
use dra_common::{error_chain, with_hint};
use imex_cdi::{ChannelId, Major, ReadMajorError};
use nvml_clique::{Fabric, NodeFabricState};

use crate::error::PrepareError;
use crate::policy::{Policy, PrepareAnswer};

/// The facts of the node's hardware at one moment.
#[derive(Debug)]
pub struct Hardware {
    /// The state of the node's fabric, from the same reading as `fabric`. The policy
    /// uses `state`, and messages quote `fabric`.
    pub state: NodeFabricState,
    /// The details of that state.
    pub fabric: Fabric,
    /// The major of IMEX channels. Read it for each snapshot: a reloaded driver
    /// may change it.
    pub major: Result<Major, ReadMajorError>,
    /// The driver's number of channels (`NVreg_ImexChannelCount`); `None` if unknown.
    pub channel_count: Option<u32>,
}

impl Hardware {
    /// The plugin's reaction to this hardware.
    pub fn policy(&self) -> Policy {
        Policy::new(self.state, self.major.is_ok())
    }

    /// Checks that the fabric's state is final: claims are prepared or permanently refused.
    ///
    /// # Errors
    /// Why not and what to do, in one line.
    pub fn check_fabric(&self) -> Result<(), String> {
        match self.policy().prepare {
            PrepareAnswer::FabricNotReady => {
                Err(with_hint(&self.fabric.to_string(), self.fabric.hint()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the channel major is known.
    ///
    /// # Errors
    /// Why not and what to do, in one line.
    pub fn check_major(&self) -> Result<(), String> {
        match &self.major {
            Ok(_) => Ok(()),
            Err(error) => Err(with_hint(&error_chain(error), error.hint())),
        }
    }

    /// The major of the device node that a claim gets.
    ///
    /// # Errors
    /// The policy's error if it does not allow the claim to be prepared.
    // req: NODE-9
    pub(crate) fn require_major(&self) -> Result<Major, PrepareError> {
        let reason = || self.fabric.to_string();
        match self.policy().prepare {
            PrepareAnswer::NoClique => Err(PrepareError::NoClique { reason: reason() }),
            PrepareAnswer::FabricNotReady => Err(PrepareError::FabricNotReady { reason: reason() }),
            PrepareAnswer::Prepared
            | PrepareAnswer::PreparedWithWarning
            | PrepareAnswer::NoMajor => {
                let major = self.major.as_ref().copied();
                major.map_err(|error| PrepareError::NoMajor {
                    reason: error_chain(error),
                })
            }
        }
    }

    /// Fails if the pool belongs to a clique that the node is not in.
    pub(crate) fn require_clique(&self, pool: &str) -> Result<(), PrepareError> {
        let Some(wanted) = clique_of_pool(pool) else {
            return Ok(());
        };
        let own = self.fabric.clique().map(|clique| clique.to_string());
        if own.as_deref() == Some(wanted) {
            return Ok(());
        }
        Err(PrepareError::OtherClique {
            wanted: wanted.to_owned(),
            own: own.unwrap_or_else(|| format!("none: {}", self.fabric)),
        })
    }

    /// The channel, if the driver has it or its number of channels is unknown.
    // req: CHANNEL-17
    pub(crate) fn require_channel(&self, channel: ChannelId) -> Result<ChannelId, PrepareError> {
        match self.channel_count {
            Some(count) if channel.get() >= count => {
                Err(PrepareError::BeyondDriver { channel, count })
            }
            _ => Ok(channel),
        }
    }

    /// The warning for the user of a prepared claim.
    // req: NODE-12
    pub(crate) fn warning(&self) -> Option<String> {
        let warns = self.policy().prepare == PrepareAnswer::PreparedWithWarning;
        warns.then(|| self.fabric.to_string())
    }
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
