use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::gofields::from_go_json;
use crate::lifecycle::{Event, Phase};
use dra_claim::{ClaimRef, ClaimStatus};

/// How long an aborted Prepare refuses late attempts with the same claim status:
/// twice the 45 s timeout of kubelet's calls, as in Go.
pub const ABORTED_FENCE: SignedDuration = SignedDuration::from_secs(90);

pub(crate) const STARTED: &str = "PrepareStarted";
pub(crate) const COMPLETED: &str = "PrepareCompleted";
pub(crate) const ABORTED: &str = "PrepareAborted";

/// One element of a record's `preparedDevices`: what the driver needs to answer
/// a repeated Prepare and to undo it. Each driver implements it for its own type.
///
/// # Who calls it, and when
///
/// The store, on its own thread and under the checkpoint's lock. For each record
/// that a commit changed it calls `Serialize` and then `Deserialize`, once. When
/// it reads the file ([`Store::open`](crate::Store::open), or a commit after
/// another process wrote), it calls `Deserialize` for every record.
/// [`Checkpoint`](crate::Checkpoint) calls them on the caller's thread. Neither
/// may block. A panic fails the commit that caused it.
///
/// # Requirements
///
/// * `Serialize` decides the bytes: fields in Go's order, with Go's rules for
///   omitting them. Strings and floats are written as in Go.
/// * `Deserialize` reads everything that `Serialize` writes: a field that may be
///   omitted (`skip_serializing_if`) has a `default`, and a float is finite (NaN
///   is written as `null`). Otherwise the commit fails with
///   [`EncodeError::Unreadable`](crate::EncodeError::Unreadable), so that the next
///   open does not find damage. The store does not check that the value is the same.
pub trait Payload: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Whether aborted records are in the checkpoint's file.
    ///
    /// `false` is for a driver that shares its checkpoint with a driver that does not know them. NVIDIA's
    /// driver for `gpu.nvidia.com` does not start if its checkpoint has an aborted record. The store then
    /// keeps these records in a second file, [`ABORTED_FILE`](crate::ABORTED_FILE); one in the checkpoint
    /// is damage ([`DamageReason::AbortedState`](crate::DamageReason::AbortedState)). The methods of
    /// [`Store`](crate::Store), [`View`](crate::View) and [`Claims`](crate::Claims) do not change.
    const HAS_ABORTED: bool = true;

    /// Reads one element of a checkpoint of NVIDIA's driver 25.3.0-rc.2 from its
    /// JSON text. Called only for files of that layout.
    ///
    /// Only a successor of that driver overrides it; the default reads the text
    /// with [`from_go_json`], like any other. An error is damage.
    fn from_legacy(json: &str) -> Result<Self, serde_json::Error> {
        from_go_json(json)
    }
}

/// The text of an element, written as it was read: for a program that needs the claims but not
/// their devices. It reads the files of every driver. Field names are not known, so a name in another
/// case is not damage.
impl Payload for Box<RawValue> {}

/// The record of one claim. Its key in the checkpoint is the claim's UID.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClaimRecord<P> {
    /// The claim's state on this node.
    pub state: State<P>,
    /// The claim's status when the record was written. It identifies the allocation.
    pub status: ClaimStatus,
    /// The claim's name; empty if 25.3.x wrote the record.
    pub name: String,
    /// The claim's namespace; empty if 25.3.x wrote the record.
    pub namespace: String,
}

/// The state of a claim on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State<P> {
    /// Prepare has begun: effects may exist. Holds no device.
    Started,
    /// Prepared; the only state that holds devices.
    Completed(Vec<P>),
    /// An unfinished Prepare was undone; a late attempt must not revive it.
    Aborted {
        /// When, in whole seconds. `None` means that the fence is over.
        at: Option<Timestamp>,
    },
}

// === impl State ===

impl<P> State<P> {
    /// The state's name in the file, the same as Go's: `PrepareStarted`,
    /// `PrepareCompleted` or `PrepareAborted`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started => STARTED,
            Self::Completed(_) => COMPLETED,
            Self::Aborted { .. } => ABORTED,
        }
    }

    /// The state without its data.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Started => Phase::Started,
            Self::Completed(_) => Phase::Completed,
            Self::Aborted { .. } => Phase::Aborted,
        }
    }
}

// === impl ClaimRecord ===

impl<P> ClaimRecord<P> {
    /// Returns the claim whose UID this is the record of. Namespace and name are empty if an older Go driver wrote it.
    pub fn claim_ref(&self, uid: &str) -> ClaimRef {
        ClaimRef {
            uid: uid.to_owned(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// Returns the devices of a completed claim; none in every other state.
    pub fn devices(&self) -> &[P] {
        match &self.state {
            State::Completed(devices) => devices,
            State::Started | State::Aborted { .. } => &[],
        }
    }

    /// Returns whether the claim is prepared, so that no other claim can get its
    /// devices.
    pub fn is_completed(&self) -> bool {
        matches!(self.state, State::Completed(_))
    }

    pub(crate) fn is_aborted(&self) -> bool {
        matches!(self.state, State::Aborted { .. })
    }

    /// Returns when the record's fence ends, or `None` if it is over at `now`.
    /// Until then, exclusive, attempts with the same claim status are refused.
    ///
    /// An abort time in the future by more than the fence's length means that the
    /// clock was set back. It is ignored, or it could block a pod for ever.
    pub fn fenced_until(&self, now: Timestamp) -> Option<Timestamp> {
        let State::Aborted { at: Some(at) } = self.state else {
            return None;
        };
        let age = now.duration_since(at);
        if age >= ABORTED_FENCE || age < -ABORTED_FENCE {
            return None;
        }
        at.checked_add(ABORTED_FENCE).ok()
    }

    /// Whether the file had no names for this claim.
    pub(crate) fn lacks_names(&self) -> bool {
        self.name.is_empty() && self.namespace.is_empty()
    }

    /// Whether a clean-up at `now` removes the record.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        let is_fenced = self.fenced_until(now).is_some();
        !is_fenced && self.state.phase().next(Event::Expire) == Ok(Phase::Absent)
    }
}
