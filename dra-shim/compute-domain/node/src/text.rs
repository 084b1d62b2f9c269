//! Reasons and hints on one line, for logs, events and conditions.

/// A reason and what to do about it: `reason; hint`. An empty hint adds nothing.
pub fn with_hint(reason: &str, hint: &str) -> String {
    if hint.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}; {hint}")
    }
}
