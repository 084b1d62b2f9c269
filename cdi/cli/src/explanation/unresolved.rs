//! The error of a command that needs a device which does not resolve.

use imex_cdi::{Registry, ResolveError};

use super::report::WhyReport;
use super::text::lines;
use crate::outcome::{CommandError, Outcome};

/// A name that does not resolve, explained as `why` does.
#[derive(Debug, thiserror::Error)]
#[error("{}", if *unknown { "it is unknown whether a device resolves" } else { "a device does not resolve" })]
pub(crate) struct UnresolvedError {
    /// Whether files that may not be read may define it.
    unknown: bool,
    explanation: Vec<String>,
}

// === impl UnresolvedError ===

impl UnresolvedError {
    pub(crate) fn new(registry: &Registry, error: &ResolveError) -> Self {
        let report = WhyReport::new(registry, error.name());
        Self {
            unknown: report.is_unknown(),
            explanation: lines(&report),
        }
    }
}

impl CommandError for UnresolvedError {
    fn outcome(&self) -> Outcome {
        if self.unknown {
            Outcome::Io
        } else {
            Outcome::Unresolved
        }
    }

    fn details(&self) -> &[String] {
        &self.explanation
    }
}
