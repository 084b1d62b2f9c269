use durable_file::Class;
use jiff::Timestamp;

use crate::view::Unsettled;

/// Why a transition was refused. Nothing was changed.
///
/// [`Unsettled`], which [`View::all`](crate::View::all) fails with, becomes one
/// through `?`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The store does not know enough.
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    /// A claim that is to be started or completed is prepared already: answer
    /// with its recorded devices. That goes for another version of it too, as
    /// in Go: the devices are those of the version that was prepared, until the
    /// claim is removed.
    #[error("claim {uid} is prepared already")]
    Completed {
        /// The claim.
        uid: String,
    },
    /// A claim that is to be aborted is prepared: it holds its devices until it
    /// is removed.
    #[error("claim {uid} is prepared and cannot be aborted")]
    Prepared {
        /// The claim.
        uid: String,
    },
    /// A prepare of this version of the claim was undone a short while ago.
    /// It can be prepared again without anyone's doing, though hardly within
    /// the same call of kubelet's, which ends after 45 s.
    #[error("the prepare of this version of claim {uid} was aborted")]
    Aborted {
        /// The claim.
        uid: String,
        /// When a new attempt is possible: from this time on.
        until: Timestamp,
    },
    /// There is no prepare to complete, or none to abort: the claim was never
    /// started, or was aborted or forgotten since.
    #[error("claim {uid} has no prepare in progress: it was not started, or was undone")]
    NotStarted {
        /// The claim.
        uid: String,
    },
    /// The started prepare is that of another version of the claim.
    #[error("claim {uid} has changed since its prepare started")]
    OtherVersion {
        /// The claim.
        uid: String,
    },
    /// A prepare in progress cannot be removed, only aborted.
    #[error("claim {uid} has a prepare in progress")]
    InProgress {
        /// The claim.
        uid: String,
    },
    /// The records are of an earlier boot and cannot be kept.
    #[error("the records are of another boot ({recorded}) and cannot be kept")]
    OtherBoot {
        /// The boot id in the file.
        recorded: String,
    },
    /// Only a damaged store may be told what it lost.
    #[error("claim {uid} cannot be restored: no claims are missing")]
    NotDamaged {
        /// The claim.
        uid: String,
    },
}

// === impl Refused ===

impl Refused {
    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsettled(unsettled) => unsettled.code(),
            Self::Completed { .. } => "claim-completed",
            Self::Prepared { .. } => "claim-prepared",
            Self::Aborted { .. } => "claim-aborted",
            Self::NotStarted { .. } => "claim-not-started",
            Self::OtherVersion { .. } => "claim-changed",
            Self::InProgress { .. } => "claim-in-progress",
            Self::OtherBoot { .. } => "other-boot",
            Self::NotDamaged { .. } => "not-damaged",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unsettled(unsettled) => unsettled.hint(),
            Self::Completed { .. } => "use the recorded devices",
            Self::Prepared { .. } => "undo its effects and remove it",
            Self::Aborted { .. } => {
                "kubelet asks again; 90 s after the abort the claim can be prepared"
            }
            Self::NotStarted { .. } => {
                "undo what the attempt did, if there was one; a prepare begins with start"
            }
            Self::OtherVersion { .. } => {
                "undo the attempt; kubelet asks again if a pod still needs the claim"
            }
            Self::InProgress { .. } => "abort the prepare first",
            Self::OtherBoot { .. } => "undo the records' effects and forget them",
            Self::NotDamaged { .. } => "prepare the claim as usual",
        }
    }

    /// Whether the same request may succeed later, without anybody's changing
    /// the claim or undoing it.
    pub fn class(&self) -> Class {
        match self {
            Self::Unsettled(_) | Self::Aborted { .. } | Self::InProgress { .. } => Class::Retry,
            Self::Completed { .. }
            | Self::Prepared { .. }
            | Self::NotStarted { .. }
            | Self::OtherVersion { .. }
            | Self::OtherBoot { .. }
            | Self::NotDamaged { .. } => Class::Permanent,
        }
    }
}
