use dra_common::Advice;
use jiff::Timestamp;

use crate::lifecycle::Refusal;
use crate::view::RecoveryNeeded;

/// Why a change of a claim's record was refused. Nothing was changed.
///
/// `?` converts [`RecoveryNeeded`], the error of
/// [`View::records`](crate::View::records).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum Refused {
    /// Records may be missing or of another boot.
    #[error(transparent)]
    #[advice(from, retry)]
    RecoveryNeeded(#[from] RecoveryNeeded),
    /// [`start`](crate::Claims::start) or [`complete`](crate::Claims::complete)
    /// of a prepared claim: its recorded devices are the answer. As in Go, this
    /// also holds for another claim status, until the claim is removed.
    #[error("claim {uid} is already prepared")]
    #[advice(
        code = Refusal::Completed.name(),
        hint = "return the recorded devices to kubelet",
        permanent
    )]
    Completed {
        /// The claim.
        uid: String,
    },
    /// [`abort`](crate::Claims::abort) of a prepared claim: it holds its devices
    /// until it is removed.
    #[error("claim {uid} is prepared and cannot be aborted")]
    #[advice(
        code = Refusal::Prepared.name(),
        hint = "undo the claim's effects, then remove its record",
        permanent
    )]
    Prepared {
        /// The claim.
        uid: String,
    },
    /// A Prepare for this claim status was aborted less than 90 s ago. It can be
    /// prepared again after that, usually in a later call: kubelet's calls time
    /// out after 45 s.
    #[error("a Prepare of claim {uid} with the same claim status was aborted less than 90 s ago")]
    #[advice(
        code = Refusal::Aborted.name(),
        hint = "wait: kubelet retries, and the claim can be prepared 90 s after the abort",
        retry
    )]
    Aborted {
        /// The claim.
        uid: String,
        /// The time from which a new attempt is possible.
        until: Timestamp,
    },
    /// There is no Prepare to complete or abort: the claim was never started, or
    /// its record has since been aborted or removed.
    #[error(
        "claim {uid} has no Prepare in progress: no Prepare was started, or the Prepare was undone"
    )]
    #[advice(
        code = Refusal::NotStarted.name(),
        hint = "undo any effects of the failed attempt, then call `start` to begin a new Prepare",
        permanent
    )]
    NotStarted {
        /// The claim.
        uid: String,
    },
    /// The started Prepare is for another claim status.
    #[error("the status of claim {uid} has changed since its Prepare started")]
    #[advice(
        code = Refusal::OtherStatus.name(),
        hint = "undo the attempt; kubelet retries if a pod still needs the claim",
        permanent
    )]
    OtherStatus {
        /// The claim.
        uid: String,
    },
    /// A Prepare in progress cannot be removed, only aborted.
    #[error("claim {uid} has a Prepare in progress and cannot be removed")]
    #[advice(code = Refusal::InProgress.name(), hint = "abort the Prepare first", retry)]
    InProgress {
        /// The claim.
        uid: String,
    },
    /// The records are of an earlier boot and cannot be kept.
    #[error("the records are from another boot ({recorded}) and cannot be kept")]
    #[advice(
        code = "other-boot",
        hint = "undo the effects of the recorded claims, then remove their records",
        permanent
    )]
    OtherBoot {
        /// The boot id in the file.
        recorded: String,
    },
    /// Claims can only be restored to a damaged store.
    #[error(
        "restore of claim {uid} refused: claims can be restored only if the checkpoint is damaged, and this one is not"
    )]
    #[advice(code = "not-damaged", hint = "prepare the claim as usual", permanent)]
    NotDamaged {
        /// The claim.
        uid: String,
    },
}

// === impl Refused ===

impl Refused {
    /// Adds the claim's UID and the end of its fence.
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
}
