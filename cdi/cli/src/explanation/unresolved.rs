//! The error of a command that needs devices which do not resolve.

use std::borrow::Cow;

use imex_cdi::{Registry, ResolveError};

use super::report::WhyReport;
use super::text::lines;
use crate::outcome::{CommandError, Outcome};

/// Names that do not resolve, each explained as `why` does.
#[derive(Debug, thiserror::Error)]
#[error("{}", message(*count, *unknown))]
pub(crate) struct UnresolvedError {
    count: usize,
    /// Whether files that may not be read may define every one of them.
    unknown: bool,
    explanations: Vec<String>,
    consequence: Option<&'static str>,
}

// === impl UnresolvedError ===

impl UnresolvedError {
    /// `consequence` is what the command did not do therefore.
    pub(crate) fn new(
        registry: &Registry,
        names: &[ResolveError],
        consequence: Option<&'static str>,
    ) -> Self {
        let names = names.iter().map(ResolveError::name);
        let reports: Vec<_> = names.map(|name| WhyReport::new(registry, name)).collect();
        Self {
            count: reports.len(),
            unknown: reports.iter().all(WhyReport::is_unknown),
            explanations: reports.iter().flat_map(lines).collect(),
            consequence,
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

    fn hint(&self) -> Option<Cow<'static, str>> {
        self.consequence.map(Cow::from)
    }

    fn details(&self) -> &[String] {
        &self.explanations
    }
}

fn message(count: usize, unknown: bool) -> String {
    match (count, unknown) {
        (1, true) => "it is unknown whether a device resolves".to_owned(),
        (n, true) => format!("it is unknown whether {n} devices resolve"),
        (1, false) => "a device does not resolve".to_owned(),
        (n, false) => format!("{n} devices do not resolve"),
    }
}
