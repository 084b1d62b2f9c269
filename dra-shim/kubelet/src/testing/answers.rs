//! The result of one call: an answer for each claim, or the failure of the whole call.

use std::collections::BTreeMap;

use crate::driver::PreparedDevice;

/// The answers by claim UID, exactly one for each claim of the call: the devices (none after an
/// Unprepare), or the plugin's error message.
pub type Answers = BTreeMap<String, Result<Vec<PreparedDevice>, String>>;

/// Error of a call as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No kubelet process is running.
    #[error("kubelet is stopped")]
    Stopped,
    /// No plugin with this name is registered.
    #[error("DRA driver {driver} is not registered")]
    NotRegistered {
        /// The driver name.
        driver: String,
    },
    /// There is no connection, and kubelet does not wait for one.
    #[error("rpc error: Unavailable: {reason}")]
    Unavailable {
        /// The reason.
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
    #[error("the response has the unknown ResourceClaim UID {uid}")]
    UnknownClaim {
        /// The claim's UID.
        uid: String,
    },
    /// The answer lacks claims.
    #[error("the response lacks {count} ResourceClaims")]
    Skipped {
        /// The number of missing claims.
        count: usize,
    },
}
