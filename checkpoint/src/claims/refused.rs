use durable_file::Class;
use jiff::Timestamp;

use crate::view::Unsettled;

/// Why a transition was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The store does not know enough.
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    /// The claim is prepared already: answer with its recorded devices.
    #[error("claim {uid} is prepared already")]
    Completed {
        /// The claim.
        uid: String,
    },
    /// A prepare of this version of the claim was undone a short while ago.
    #[error("the prepare of this version of claim {uid} was aborted")]
    Aborted {
        /// The claim.
        uid: String,
        /// When a new attempt is possible: from this time on.
        until: Timestamp,
    },
    /// There is no started prepare to complete or to abort.
    #[error("claim {uid} has no prepare in progress: it was undone meanwhile")]
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
            Self::Aborted { .. } => "kubelet asks again; after 90 s the claim can be prepared",
            Self::NotStarted { .. } | Self::OtherVersion { .. } => {
                "undo the attempt; kubelet asks again if a pod still needs the claim"
            }
            Self::InProgress { .. } => "abort the prepare first",
            Self::OtherBoot { .. } => "undo the records' effects and forget them",
            Self::NotDamaged { .. } => "prepare the claim as usual",
        }
    }

    /// Whether the same request may succeed later in the same call.
    pub fn class(&self) -> Class {
        match self {
            Self::Unsettled(_) | Self::InProgress { .. } => Class::Retry,
            Self::Completed { .. }
            | Self::Aborted { .. }
            | Self::NotStarted { .. }
            | Self::OtherVersion { .. }
            | Self::OtherBoot { .. }
            | Self::NotDamaged { .. } => Class::Permanent,
        }
    }
}
