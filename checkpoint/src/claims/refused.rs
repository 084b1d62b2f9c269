use durable_file::Class;
use jiff::Timestamp;

use crate::lifecycle::Refusal;
use crate::view::RecoveryNeeded;

/// Why a change of a claim's record was refused. Nothing was changed.
///
/// [`RecoveryNeeded`], the error of [`View::records`](crate::View::records),
/// becomes one through `?`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Records may be missing, or be of another boot.
    #[error(transparent)]
    RecoveryNeeded(#[from] RecoveryNeeded),
    /// [`start`](crate::Claims::start) or [`complete`](crate::Claims::complete)
    /// of a claim that is prepared: its recorded devices are the answer. So they
    /// are for another claim status, as in Go, until the claim is removed.
    #[error("claim {uid} is prepared already")]
    Completed {
        /// The claim.
        uid: String,
    },
    /// [`abort`](crate::Claims::abort) of a claim that is prepared: it holds its
    /// devices until it is removed.
    #[error("claim {uid} is prepared and cannot be aborted")]
    Prepared {
        /// The claim.
        uid: String,
    },
    /// A Prepare for this claim status was aborted less than 90 s ago.
    /// Later it can be prepared again; hardly within the same call of kubelet's,
    /// which ends after 45 s.
    #[error("a prepare of claim {uid} for the same claim status was aborted")]
    Aborted {
        /// The claim.
        uid: String,
        /// From when on a new attempt is possible.
        until: Timestamp,
    },
    /// There is no Prepare to complete, or none to abort: the claim was never
    /// started, or its record was aborted or removed since.
    #[error("claim {uid} has no prepare in progress: it was not started, or was undone")]
    NotStarted {
        /// The claim.
        uid: String,
    },
    /// The started Prepare is for another claim status.
    #[error("claim {uid} has changed since its prepare started")]
    OtherStatus {
        /// The claim.
        uid: String,
    },
    /// A Prepare in progress cannot be removed, only aborted.
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
    /// Only a damaged store takes back what it lost.
    #[error("claim {uid} cannot be restored: no claims are missing")]
    NotDamaged {
        /// The claim.
        uid: String,
    },
}

// === impl Refused ===

impl Refused {
    /// `refusal` of the claim `uid`, whose fence holds until `fenced_until`.
    pub(super) fn from_refusal(
        refusal: Refusal,
        uid: &str,
        fenced_until: Option<Timestamp>,
    ) -> Self {
        let uid = uid.to_owned();
        match refusal {
            Refusal::Completed => Self::Completed { uid },
            Refusal::Prepared => Self::Prepared { uid },
            // Without a fence there is nothing to wait for.
            Refusal::Aborted => Self::Aborted {
                uid,
                until: fenced_until.unwrap_or(Timestamp::MIN),
            },
            Refusal::NotStarted => Self::NotStarted { uid },
            Refusal::OtherStatus => Self::OtherStatus { uid },
            Refusal::InProgress => Self::InProgress { uid },
        }
    }

    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RecoveryNeeded(reason) => reason.code(),
            Self::Completed { .. } => Refusal::Completed.name(),
            Self::Prepared { .. } => Refusal::Prepared.name(),
            Self::Aborted { .. } => Refusal::Aborted.name(),
            Self::NotStarted { .. } => Refusal::NotStarted.name(),
            Self::OtherStatus { .. } => Refusal::OtherStatus.name(),
            Self::InProgress { .. } => Refusal::InProgress.name(),
            Self::OtherBoot { .. } => "other-boot",
            Self::NotDamaged { .. } => "not-damaged",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::RecoveryNeeded(reason) => reason.hint(),
            Self::Completed { .. } => "use the recorded devices",
            Self::Prepared { .. } => "remove its side effects, then remove it",
            Self::Aborted { .. } => {
                "kubelet asks again; 90 s after the abort the claim can be prepared"
            }
            Self::NotStarted { .. } => {
                "undo what the attempt did, if there was one; a prepare begins with start"
            }
            Self::OtherStatus { .. } => {
                "undo the attempt; kubelet asks again if a pod still needs the claim"
            }
            Self::InProgress { .. } => "abort the prepare first",
            Self::OtherBoot { .. } => "remove the side effects of the records, then the records",
            Self::NotDamaged { .. } => "prepare the claim as usual",
        }
    }

    /// Whether the same request may succeed later although nobody changes the
    /// claim or unprepares it.
    pub fn class(&self) -> Class {
        match self {
            Self::RecoveryNeeded(_) | Self::Aborted { .. } | Self::InProgress { .. } => {
                Class::Retry
            }
            Self::Completed { .. }
            | Self::Prepared { .. }
            | Self::NotStarted { .. }
            | Self::OtherStatus { .. }
            | Self::OtherBoot { .. }
            | Self::NotDamaged { .. } => Class::Permanent,
        }
    }
}
