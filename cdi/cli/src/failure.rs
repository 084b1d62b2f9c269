//! How a command ends.

use std::borrow::Cow;
use std::io::{self, Write};
use std::process::ExitCode;

use compute_domain_node::with_sources;
use imex_cdi::{Registry, Unresolved};

use crate::checkpoint::CheckpointError;
use crate::doctor::BundleError;
use crate::document::DocumentError;
use crate::gc::GcError;
use crate::generate::GenerateError;
use crate::inject::InjectError;
use crate::printable::printable;
use crate::validate::UnknownRuntime;
use crate::why;

/// What a command that ran to its end has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is wrong.
    Clean,
    /// Something is, and the output says what.
    Findings,
    /// The name that was asked about has no device, and the output says why.
    Unresolved,
    /// What may not be read would have to tell.
    Unreadable,
}

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Each was reported when it was met.
    #[error("{unread} of {files} files cannot be read")]
    ReadSome { unread: usize, files: usize },
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(transparent)]
    Gc(#[from] GcError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Inject(#[from] InjectError),
    #[error(transparent)]
    UnknownRuntime(UnknownRuntime),
    #[error("{}", of_names(*count, *unknown))]
    Unresolved {
        count: usize,
        /// Whether files that may not be read may define every one.
        unknown: bool,
        /// Why, of each name.
        explained: Vec<String>,
        consequence: Option<&'static str>,
    },
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Clean => ExitCode::SUCCESS,
            Self::Findings => ExitCode::from(1),
            Self::Unreadable => ExitCode::from(3),
            Self::Unresolved => ExitCode::from(4),
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::UnknownRuntime(_) => ExitCode::from(2),
            Self::Unresolved { unknown: false, .. } => ExitCode::from(4),
            Self::Checkpoint(error) => ExitCode::from(error.exit_code()),
            Self::Gc(error) => ExitCode::from(error.exit_code()),
            Self::Generate(error) => ExitCode::from(error.exit_code()),
            Self::Inject(error) => ExitCode::from(error.exit_code()),
            Self::ReadSome { .. }
            | Self::Document(_)
            | Self::Bundle(_)
            | Self::Unresolved { unknown: true, .. }
            | Self::Output(_) => ExitCode::from(3),
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Checkpoint(error) => error.hint(),
            Self::Document(error) => error.hint().map(Cow::from),
            Self::Bundle(error) => Some(error.hint().into()),
            Self::Gc(error) => Some(error.hint().into()),
            Self::Generate(error) => Some(error.hint().into()),
            Self::Inject(error) => error.hint().map(Cow::from),
            Self::UnknownRuntime(error) => Some(error.hint().into()),
            Self::Unresolved { consequence, .. } => consequence.map(Cow::from),
            Self::ReadSome { .. } | Self::Output(_) => None,
        }
    }

    /// Explains every name that has no device.
    pub(crate) fn unresolved(
        registry: &Registry,
        names: &[Unresolved],
        consequence: Option<&'static str>,
    ) -> Self {
        let names = names.iter().map(Unresolved::name);
        let reports: Vec<_> = names.map(|name| why::Report::of(registry, name)).collect();
        Self::Unresolved {
            count: reports.len(),
            unknown: reports.iter().all(why::Report::is_unknown),
            explained: reports.iter().flat_map(why::lines).collect(),
            consequence,
        }
    }

    /// One line on stderr: what, why, the fix. Names are explained below it.
    pub(crate) fn report(&self) {
        let what = with_sources(self);
        let fix = self
            .hint()
            .map_or_else(String::new, |hint| format!("; {hint}"));
        note(&format!("{what}{fix}"));
        if let Self::Unresolved { explained, .. } = self {
            for line in explained {
                let _ = writeln!(io::stderr(), "{}", printable(line));
            }
        }
    }
}

/// A line on stderr.
pub(crate) fn note(text: &str) {
    // There is nowhere left to say that stderr is closed.
    let _ = writeln!(io::stderr(), "cdi-gen: {}", printable(text));
}

fn of_names(count: usize, unknown: bool) -> String {
    match (count, unknown) {
        (1, true) => "it is unknown whether a device resolves".to_owned(),
        (n, true) => format!("it is unknown whether {n} devices resolve"),
        (1, false) => "a device does not resolve".to_owned(),
        (n, false) => format!("{n} devices do not resolve"),
    }
}
