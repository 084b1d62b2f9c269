//! Errors that every driver's claims have, one sentence each.

use dra_checkpoint::{Refused, StoreError};
use dra_common::{Advice, error_chain};
use imex_cdi::ClaimSpecsError;

/// Why a claim is not prepared, whatever its devices are.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum PrepareError {
    /// An Unprepare interrupted this Prepare. A new Prepare of the same claim status is refused
    /// until late attempts of all processes have ended.
    #[error("an Unprepare interrupted this Prepare of the claim; a new Prepare can succeed soon")]
    #[advice(code = "aborted", hint = "", retry)]
    Aborted,
    /// The checkpoint was damaged and is not rebuilt yet.
    #[error("the checkpoint is damaged and not yet rebuilt, so the devices in use are unknown")]
    #[advice(code = "holders-unknown", hint = "", retry)]
    NeedsRecovery,
    /// The CDI spec is missing, and its record is from another mode or release: this driver cannot
    /// write that spec.
    #[error(
        "the claim's CDI spec is missing, and this driver cannot rewrite the spec: a driver in another mode wrote it"
    )]
    #[advice(
        code = "foreign-spec-lost",
        hint = "delete and recreate the pod, so that kubelet unprepares its claim",
        permanent
    )]
    ForeignSpecLost,
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    #[advice(
        code = "checkpoint",
        hint = "see the plugin's log; check the disk of the kubelet directory",
        retry
    )]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI spec could not be written.
    #[error("the claim's CDI spec cannot be written")]
    #[advice(from = source)]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
    /// The UID that kubelet sent, or the status from the API server, is malformed.
    #[error("the claim object cannot be used: {reason}")]
    #[advice(
        code = "bad-claim",
        hint = "recreate the pod, so that it gets a new claim",
        permanent
    )]
    BadClaim {
        /// Why.
        reason: String,
    },
}

/// Why a claim is not unprepared. Always retry: Unprepare needs only local state.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum UnprepareError {
    /// The record could not be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    #[advice(code = "checkpoint")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI spec could not be removed.
    #[error("the claim's CDI spec cannot be removed")]
    #[advice(from = source)]
    Cdi {
        /// Why.
        source: ClaimSpecsError,
    },
    /// The hardware that the claim has changed could not be restored, and that could not be noted, either.
    #[error("what the claim has changed on hardware cannot be restored: {reason}")]
    #[advice(code = "hardware-not-restored")]
    Hardware {
        /// Why.
        reason: String,
    },
}

impl From<StoreError> for PrepareError {
    fn from(error: StoreError) -> Self {
        Self::Checkpoint {
            reason: error_chain(&error),
        }
    }
}

impl From<Refused> for PrepareError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::RecoveryNeeded(_) => Self::NeedsRecovery,
            Refused::Aborted { .. } | Refused::NotStarted { .. } | Refused::OtherStatus { .. } => {
                Self::Aborted
            }
            other => Self::Checkpoint {
                reason: error_chain(&other),
            },
        }
    }
}

impl From<ClaimSpecsError> for PrepareError {
    fn from(source: ClaimSpecsError) -> Self {
        Self::Cdi { source }
    }
}

impl From<StoreError> for UnprepareError {
    fn from(error: StoreError) -> Self {
        Self::Checkpoint {
            reason: error_chain(&error),
        }
    }
}

impl From<Refused> for UnprepareError {
    fn from(refused: Refused) -> Self {
        Self::Checkpoint {
            reason: error_chain(&refused),
        }
    }
}
