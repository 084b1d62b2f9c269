use dra_common::Advice;
use jiff::Timestamp;

use crate::lifecycle::Refusal;
use crate::view::RecoveryNeeded;

/// Why a change of a claim's record was refused. Nothing was changed.
///
/// [`RecoveryNeeded`], the error of [`View::records`](crate::View::records),
/// becomes one through `?`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum Refused {
    /// Records may be missing, or be of another boot.
    #[error(transparent)]
    #[advice(from, retry)]
    RecoveryNeeded(#[from] RecoveryNeeded),
    /// [`start`](crate::Claims::start) or [`complete`](crate::Claims::complete)
    /// of a claim that is prepared: its recorded devices are the answer. So they
    /// are for another claim status, as in Go, until the claim is removed.
    #[error("claim {uid} is prepared already")]
    #[advice(code = Refusal::Completed.name(), hint = "use the recorded devices", permanent)]
    Completed {
        /// The claim.
        uid: String,
    },
    /// [`abort`](crate::Claims::abort) of a claim that is prepared: it holds its
    /// devices until it is removed.
    #[error("claim {uid} is prepared and cannot be aborted")]
    #[advice(
        code = Refusal::Prepared.name(),
        hint = "remove its side effects, then remove it",
        permanent
    )]
    Prepared {
        /// The claim.
        uid: String,
    },
    /// A Prepare for this claim status was aborted less than 90 s ago.
    /// Later it can be prepared again; hardly within the same call of kubelet's,
    /// which ends after 45 s.
    #[error("a prepare of claim {uid} for the same claim status was aborted")]
    #[advice(
        code = Refusal::Aborted.name(),
        hint = "kubelet asks again; 90 s after the abort the claim can be prepared",
        retry
    )]
    Aborted {
        /// The claim.
        uid: String,
        /// From when on a new attempt is possible.
        until: Timestamp,
    },
    /// There is no Prepare to complete, or none to abort: the claim was never
    /// started, or its record was aborted or removed since.
    #[error("claim {uid} has no prepare in progress: it was not started, or was undone")]
    #[advice(
        code = Refusal::NotStarted.name(),
        hint = "undo what the attempt did, if there was one; a prepare begins with start",
        permanent
    )]
    NotStarted {
        /// The claim.
        uid: String,
    },
    /// The started Prepare is for another claim status.
    #[error("claim {uid} has changed since its prepare started")]
    #[advice(
        code = Refusal::OtherStatus.name(),
        hint = "undo the attempt; kubelet asks again if a pod still needs the claim",
        permanent
    )]
    OtherStatus {
        /// The claim.
        uid: String,
    },
    /// A Prepare in progress cannot be removed, only aborted.
    #[error("claim {uid} has a prepare in progress")]
    #[advice(code = Refusal::InProgress.name(), hint = "abort the prepare first", retry)]
    InProgress {
        /// The claim.
        uid: String,
    },
    /// The records are of an earlier boot and cannot be kept.
    #[error("the records are of another boot ({recorded}) and cannot be kept")]
    #[advice(
        code = "other-boot",
        hint = "remove the side effects of the records, then the records",
        permanent
    )]
    OtherBoot {
        /// The boot id in the file.
        recorded: String,
    },
    /// Only a damaged store takes back what it lost.
    #[error("claim {uid} cannot be restored: no claims are missing")]
    #[advice(code = "not-damaged", hint = "prepare the claim as usual", permanent)]
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
}
