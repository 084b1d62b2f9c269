//! What a driver author implements, and the two types that it answers with.

use std::fmt;
use std::future::Future;

use crate::call::Call;
use crate::claim::{Allocated, Claim, ClaimRef};

/// A DRA driver's node side: makes a claim's devices usable on this node and
/// takes that back.
///
/// # Guarantees of the library
///
/// * Steps of one claim UID never overlap within one [`Plugin`](crate::Plugin):
///   `prepare` and `unprepare` of a claim run strictly one after another, whoever
///   calls. Steps of different claims run in parallel. Another plugin, of this
///   process or of another, knows nothing of them.
/// * A step runs to its end. A call that kubelet gave up on, or that its restart
///   cut off, does not drop the future; a repeated call joins it.
/// * [`Class::Retry`] errors are tried again inside the call, with back-off,
///   until shortly before kubelet's deadline. The driver itself never loops.
/// * A panic becomes that claim's error, whether it is the driver's, the
///   [`ClaimSource`](crate::ClaimSource)'s or in the making of a future; other
///   claims do not notice.
///
/// # What the driver owes
///
/// * `prepare` may come any number of times for one claim, also after a reboot
///   or for a claim that is already prepared: return the same devices, and put
///   back what has gone missing on disk.
/// * Both methods end by [`Call::deadline`], and `prepare` soon after
///   [`Call::cancelled`]. Blocking work belongs into [`Call::run_blocking`].
/// * An error leaves nothing behind that a later `unprepare` cannot find by UID.
/// * During a rolling update two processes serve one node, and kubelet calls either:
///   what must be remembered is on disk, changed under a lock of the file system.
pub trait Driver: Send + Sync + 'static {
    /// Makes the claim's devices usable and says which they are. One attempt:
    /// what may succeed later in the same call is a [`Class::Retry`] error.
    ///
    /// No device at all is a valid answer.
    fn prepare(
        &self,
        call: &Call,
        claim: &Claim,
    ) -> impl Future<Output = Result<Vec<Device>, ClaimError>> + Send;

    /// Takes back whatever `prepare` did for this UID, found by what the driver
    /// itself keeps: the claim object may be gone. An unknown UID is success.
    ///
    /// After success the scheduler may give the device to someone else at once,
    /// so return only when it is really free.
    fn unprepare(
        &self,
        call: &Call,
        claim: &ClaimRef,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send;
}

/// One prepared device of a claim: one per allocation result, so a device that
/// several shares of a claim use appears once per share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The claim's requests that this device serves; kubelet gets the base names
    /// ([`Allocated::base_request`](crate::Allocated::base_request)) of them.
    /// Empty means every request.
    pub requests: Vec<String>,
    /// The pool of the allocation result.
    pub pool: String,
    /// The device of the allocation result.
    pub device: String,
    /// Fully qualified CDI ids (`vendor/class=name`) that the runtime injects.
    /// They must be the same on every call for the same claim.
    pub cdi_ids: Vec<String>,
    /// The share id of the allocation result, where it has one.
    pub share_id: Option<String>,
}

impl Device {
    /// The answer to one allocation result, with the CDI ids that its containers get.
    pub fn of(result: &Allocated, cdi_ids: Vec<String>) -> Self {
        Self {
            requests: vec![result.base_request().to_owned()],
            pool: result.pool.clone(),
            device: result.device.clone(),
            cdi_ids,
            share_id: result.share_id.clone(),
        }
    }
}

/// Whether another attempt inside the same call may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Only a change by the user helps: answered at once.
    Permanent,
    /// The state of the world may change: tried again until the deadline.
    Retry,
}

/// Why a claim could not be prepared or unprepared.
///
/// The sentence reaches the user in an event of the pod, after
/// `NodePrepareResources failed for ResourceClaim NAME: `. It is short, in the
/// user's words, and names neither pod nor namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimError {
    class: Class,
    code: &'static str,
    message: String,
}

/// Events hold 1024 bytes in all; kubelet's own words take up to 300 of them.
const MAX_MESSAGE: usize = 700;

impl ClaimError {
    /// An error that no repetition mends.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(Class::Permanent, message)
    }

    /// An error that may be gone at the next attempt.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(Class::Retry, message)
    }

    /// The message on one line, cut to what an event can hold. Characters that no
    /// reader sees (control characters, those that turn the direction of the text)
    /// are left out: words of others, such as a tool's, end up in terminals.
    pub fn new(class: Class, message: impl fmt::Display) -> Self {
        let words = message.to_string();
        let words: Vec<_> = words.split_whitespace().map(crate::text::visible).collect();
        let mut message = words.join(" ").trim().to_owned();
        if message.is_empty() {
            // On the wire an empty text means success.
            message.push_str("the driver gave no reason");
        }
        if message.len() > MAX_MESSAGE {
            message.truncate(crate::text::cut(&message, MAX_MESSAGE).len());
            message.push_str("...");
        }
        Self {
            class,
            code: "driver",
            message,
        }
    }

    /// Says which error it is, in one stable kebab-case word: what an
    /// [`Observer`](crate::Observer) counts it under.
    #[must_use]
    pub const fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// What the library says to every claim that its end interrupts.
    pub(crate) fn shutting_down() -> Self {
        Self::retry("the driver is shutting down").with_code("shutting-down")
    }

    /// What is answered where a cancellation comes before anything was done.
    pub(crate) fn cancelled() -> Self {
        Self::retry("the call was cancelled").with_code("cancelled")
    }

    /// The stable word; `driver` where the driver gave none.
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Whether the library tries again.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The sentence for the user: one line, never empty.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClaimError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_never_empty() {
        assert_eq!(ClaimError::retry("a\n  b").message(), "a b");
        assert!(!ClaimError::permanent(" \n").message().is_empty());
    }

    #[test]
    fn an_error_carries_nothing_that_a_terminal_obeys() {
        let error = ClaimError::retry("a\u{1b}[31mred\u{7} \u{202e}txt.exe\u{200f}\u{2066}é\0");
        assert_eq!(error.message(), "a[31mred txt.exeé");
        assert!(!ClaimError::retry("\u{7}").message().is_empty());
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let error = ClaimError::retry("ä".repeat(MAX_MESSAGE));
        assert!(error.message().len() <= MAX_MESSAGE + 3);
        assert!(error.message().ends_with("ä..."));
    }
}
