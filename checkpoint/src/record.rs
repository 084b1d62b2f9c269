use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::gofields::from_go_json;
use crate::lifecycle::{Event, Phase};
use dra_claim::ClaimStatus;

/// How long an aborted prepare refuses a late attempt of the same claim
/// version: twice the 45 s that kubelet waits for one call, as in Go.
pub const ABORTED_FENCE: SignedDuration = SignedDuration::from_secs(90);

pub(crate) const STARTED: &str = "PrepareStarted";
pub(crate) const COMPLETED: &str = "PrepareCompleted";
pub(crate) const ABORTED: &str = "PrepareAborted";

/// One element of a record's `preparedDevices`: what the driver needs to
/// answer a repeated Prepare and to undo it. The driver implements it for its
/// own type.
///
/// # Who calls it, and when
///
/// The store, on its own thread and under the checkpoint's lock: `Serialize`
/// and then `Deserialize` once for each record that a commit has changed,
/// `Deserialize` for every record when it reads the file
/// ([`Store::open`](crate::Store::open), a commit after another process wrote).
/// [`Checkpoint`](crate::Checkpoint) does so on the thread of its caller. Neither
/// may block. A panic fails the commit that caused it.
///
/// # What is owed
///
/// * `Serialize` decides the bytes: fields in Go's order and with Go's rules
///   for leaving them out. Strings and floats are written as Go does.
/// * `Deserialize` reads everything that `Serialize` writes: a field that may
///   be left out (`skip_serializing_if`) has a `default`, and a float is finite
///   (NaN is written as `null`). Otherwise the commit fails with
///   [`EncodeError::Unreadable`](crate::EncodeError::Unreadable), before the
///   next open would find damage. That it is the same value is not checked.
pub trait Payload: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Reads one element of a checkpoint of NVIDIA's driver 25.3.0-rc.2, from its
    /// JSON text. Called when a file of that layout is read, and never for
    /// others.
    ///
    /// Only a successor of that driver overrides it; by default the text is read
    /// as any other, with [`from_go_json`]. An error is damage.
    fn from_legacy(json: &str) -> Result<Self, serde_json::Error> {
        from_go_json(json)
    }
}

/// The text of an element, for a program that does not care what a driver prepared, as one that
/// looks for claims: it is written as it was read. That a field name is known in another case
/// is then not damage, as nobody knows the names.
impl Payload for Box<RawValue> {}

/// What the checkpoint knows of one claim. Its key is the claim's UID.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClaimRecord<P> {
    /// How far the claim got.
    pub state: State<P>,
    /// The claim's status at that time. It identifies the allocation.
    pub status: ClaimStatus,
    /// The claim's name; empty if 25.3.x wrote the record.
    pub name: String,
    /// The claim's namespace; empty if 25.3.x wrote the record.
    pub namespace: String,
}

/// How far a claim got on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State<P> {
    /// Prepare has begun: there may be effects to undo. Holds no device.
    Started,
    /// Prepared; the only state that holds devices.
    Completed(Vec<P>),
    /// An unfinished prepare was undone; a late attempt must not revive it.
    Aborted {
        /// When, in whole seconds. `None` counts as long ago.
        at: Option<Timestamp>,
    },
}

// === impl State ===

impl<P> State<P> {
    /// The state's name in the file, as Go has it: `PrepareStarted`,
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
    /// Returns the devices of a completed claim; none in every other state.
    pub fn devices(&self) -> &[P] {
        match &self.state {
            State::Completed(devices) => devices,
            State::Started | State::Aborted { .. } => &[],
        }
    }

    /// Returns whether the claim is prepared, and so holds its devices against
    /// other claims.
    pub fn is_completed(&self) -> bool {
        matches!(self.state, State::Completed(_))
    }

    /// Returns when the record's fence ends, if it holds at `now`: until then,
    /// exclusive, a new attempt for the same claim status is refused.
    ///
    /// A time that lies further ahead than the fence is long means that the
    /// clock was set back; it does not count, or it could block a pod for ever.
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

    /// Whether the file that it was read from has no names.
    pub(crate) fn lacks_names(&self) -> bool {
        self.name.is_empty() && self.namespace.is_empty()
    }

    /// Whether a clean-up at `now` removes the record.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        let is_fenced = self.fenced_until(now).is_some();
        !is_fenced && self.state.phase().next(Event::Expire) == Ok(Phase::Absent)
    }
}
