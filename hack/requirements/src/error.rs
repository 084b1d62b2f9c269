//! Errors and failures of the check.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot run git ls-files: {0}")]
    Git(#[source] io::Error),
    #[error("git ls-files: {message}")]
    GitFailed { message: String },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
    #[error("{0} problems; docs/requirements/README.md has the rules")]
    Problems(usize),
}
