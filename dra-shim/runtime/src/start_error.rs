use std::error::Error;
use std::fmt;

use compute_domain_api::SettingsError;
use dra_common::error_chain;

use crate::client::KubeError;

/// Why a program cannot start. [`daemon::main`](crate::daemon::main) prints it as one line and exits
/// with code 1.
///
/// Only for problems that the administrator must fix: an option, a port in use, missing credentials. If
/// the problem can resolve itself, retry and use a [`ReadinessCondition`](crate::ReadinessCondition).
#[derive(Debug)]
pub struct StartError {
    line: String,
}

impl StartError {
    /// The error with its sources, and a hint, which may be empty. Line breaks become spaces.
    pub fn new(error: &(dyn Error + 'static), hint: &str) -> Self {
        let error = error_chain(error);
        if hint.is_empty() {
            return Self::from_line(&error);
        }
        Self::from_line(&format!("{error}; {hint}"))
    }

    /// `text` as one line, so that a log collector gets one record.
    pub(crate) fn from_line(text: &str) -> Self {
        Self {
            line: text.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl Error for StartError {}

impl From<SettingsError> for StartError {
    fn from(error: SettingsError) -> Self {
        Self::new(&error, error.hint())
    }
}

impl From<KubeError> for StartError {
    fn from(error: KubeError) -> Self {
        Self::new(&error, error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: MODE-9
    #[test]
    fn the_line_has_error_sources_and_hint_and_no_line_break() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);

        let err = Outer(std::io::Error::other("in\nner"));
        let line = |hint| StartError::new(&err, hint).to_string();
        assert_eq!(line("do this"), "outer: in ner; do this");
        assert_eq!(line(""), "outer: in ner");
    }
}
