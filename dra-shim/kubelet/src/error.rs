//! The error of one claim, which a driver returns and kubelet shows.

use std::fmt;

/// Whether the library retries within the same call. It retries until shortly before kubelet's
/// deadline; a permanent error reaches kubelet at once.
pub use dra_common::Class as ErrorClass;
use dra_common::joined_lines;

/// The error of preparing or unpreparing a claim.
///
/// The user sees the message in an event of the pod, after
/// `NodePrepareResources failed for ResourceClaim NAME: `. It should be short and in
/// the user's terms. It should not name the pod or namespace: the event does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimError {
    class: ErrorClass,
    code: &'static str,
    message: String,
}

/// Events hold 1024 bytes in all; kubelet's own prefix takes up to 300 of them.
const MAX_MESSAGE: usize = 700;

// === impl ClaimError ===

impl ClaimError {
    /// Creates an error that no retry fixes. The user sees only the message: if an error has
    /// a source, pass the whole chain, not only its `Display`.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Permanent, message)
    }

    /// Creates an error that the library retries. The message is as for
    /// [`permanent`](Self::permanent).
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Retry, message)
    }

    /// Creates an error of the given class. The message is put on one line and truncated to
    /// the size of an event. Control characters and bidirectional overrides are removed,
    /// because messages may contain output of other tools and are shown in terminals.
    // req: KUBELET-35
    pub fn new(class: ErrorClass, message: impl fmt::Display) -> Self {
        let mut message = joined_lines(&message.to_string(), MAX_MESSAGE);
        if message.is_empty() {
            // On the wire an empty message means success.
            message.push_str("the driver gave no reason");
        }
        Self {
            class,
            code: "driver",
            message,
        }
    }

    /// Sets the error's code: a stable kebab-case word for metrics, see
    /// [`Observer`](crate::Observer).
    #[must_use]
    pub const fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// The error of a claim that the plugin's shutdown interrupts.
    pub(crate) fn shutting_down() -> Self {
        Self::retry("the driver is shutting down").with_code("shutting-down")
    }

    /// The error of a claim that was cancelled before any work was done.
    pub(crate) fn cancelled() -> Self {
        Self::retry("the call was cancelled").with_code("cancelled")
    }

    /// The stable code; `driver` unless [`ClaimError::with_code`] set another.
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Whether the library retries.
    pub const fn class(&self) -> ErrorClass {
        self.class
    }

    /// The message for the user: one line, never empty.
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

    // req: KUBELET-35
    #[test]
    fn an_error_is_one_line_and_never_empty() {
        assert_eq!(ClaimError::retry("a\n  b").message(), "a b");
        assert!(!ClaimError::permanent(" \n").message().is_empty());
    }

    // req: KUBELET-35
    #[test]
    fn terminal_escapes_and_bidirectional_overrides_are_removed() {
        let error = ClaimError::retry("a\u{1b}[31mred\u{7} \u{202e}txt.exe\u{200f}\u{2066}é\0");
        assert_eq!(error.message(), "a[31mred txt.exeé");
        assert!(!ClaimError::retry("\u{7}").message().is_empty());
    }

    // req: KUBELET-35
    #[test]
    fn a_long_error_is_truncated_between_characters() {
        let error = ClaimError::retry("ä".repeat(MAX_MESSAGE));
        assert!(error.message().len() <= MAX_MESSAGE + 3);
        assert!(error.message().ends_with("ä..."));
    }
}
