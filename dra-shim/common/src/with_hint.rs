//! A reason and its hint on one line, for logs, events and conditions.

/// Joins a reason and its hint: `reason; hint`. Without a hint, only the reason.
pub fn with_hint(reason: &str, hint: &str) -> String {
    if hint.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}; {hint}")
    }
}
