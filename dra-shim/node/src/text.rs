//! Errors and suggestions on one line, for logs, events and conditions.

/// An error and what caused it, outermost first: `a: b: c`.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A reason and what to do about it: `reason; hint`. An empty hint adds nothing.
pub fn with_hint(reason: &str, hint: &str) -> String {
    if hint.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}; {hint}")
    }
}
