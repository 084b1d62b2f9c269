//! The result of one call: an answer for each claim, or the failure of the whole call.

use std::collections::BTreeMap;

use crate::driver::PreparedDevice;

/// By claim UID, exactly those of the call: the devices (none after an Unprepare), or the
/// plugin's error message.
pub type Answers = BTreeMap<String, Result<Vec<PreparedDevice>, String>>;

/// Why a call as a whole failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No kubelet process runs.
    #[error("kubelet is stopped")]
    Stopped,
    /// kubelet knows no plugin of this name.
    #[error("DRA driver {driver} is not registered")]
    NotRegistered {
        /// The name.
        driver: String,
    },
    /// There is no connection: kubelet does not wait for one.
    #[error("rpc error: Unavailable: {reason}")]
    Unavailable {
        /// Why not.
        reason: String,
    },
    /// No answer within [`Times::call`](super::Times::call); the call was cancelled.
    #[error("rpc error: DeadlineExceeded")]
    Deadline,
    /// The plugin failed the call instead of its claims.
    #[error("rpc error: {code}: {message}")]
    Status {
        /// gRPC's name of the code.
        code: String,
        /// The plugin's message.
        message: String,
    },
    /// The answer has a claim that is not in the call.
    #[error("the answer has the unknown ResourceClaim UID {uid}")]
    UnknownClaim {
        /// That claim.
        uid: String,
    },
    /// The answer lacks claims.
    #[error("the answer skipped {count} ResourceClaims")]
    Skipped {
        /// How many.
        count: usize,
    },
}
