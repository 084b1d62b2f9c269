//! Errors and failures of the check.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot run cargo metadata: {0}")]
    Cargo(#[source] io::Error),
    #[error("cargo metadata: {message}")]
    Metadata { message: String },
    #[error("cannot parse the output of cargo metadata: {0}")]
    MetadataJson(#[source] serde_json::Error),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot parse {}: {source}", path.display())]
    Parse { path: PathBuf, source: syn::Error },
    #[error("{} has no file for its module {module}", path.display())]
    NoModule { path: PathBuf, module: String },
    #[error("{} lacks the block {name}: add a line {begin:?} and one {end:?}", path.display())]
    NoBlock {
        path: PathBuf,
        name: &'static str,
        begin: String,
        end: &'static str,
    },
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
    #[error(
        "{0} module circles; remove one direction, or move what both modules need into a module below both"
    )]
    Circles(usize),
    #[error("{0} uses of IMEX-specific code in general code")]
    Layers(usize),
    #[error(
        "{0} findings in sources that work on one architecture only; arm64 is the main one, and not all tests run there"
    )]
    OneMachine(usize),
    #[error("{0} identifiers contain a word of REFUSED in hack/architecture/src/names.rs")]
    Names(usize),
    #[error("{0} differences between the events in the code and in the table")]
    Events(usize),
    #[error("out of date: {}; run `cargo run -p architecture -- write` and commit the result", paths.join(", "))]
    OutOfDate { paths: Vec<String> },
}
