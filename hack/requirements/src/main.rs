//! Holds the requirements, the code and the tests together.
//!
//! ```text
//! docs/requirements/*.md ──► catalogue: what is demanded, by id  ─┐
//! every other file       ──► citations: where an id is met, tested ─┴► coverage: table, problems
//! ```
//!
//! `requirements check` is part of `hack/test.sh`. The form of both sides is in
//! `docs/requirements/README.md`.

#![forbid(unsafe_code)]

mod catalogue;
mod citations;
mod coverage;
mod error;
mod id;
mod sources;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::catalogue::Catalogue;
use crate::coverage::Coverage;
use crate::error::Error;
use crate::sources::Source;

/// This crate lies two directories below the root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> ExitCode {
    if std::env::args().skip(1).ne(["check".to_owned()]) {
        let _ = writeln!(io::stderr(), "usage: requirements check");
        return ExitCode::from(2);
    }
    match check(Path::new(ROOT), &mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "requirements: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table, then the problems, each on a line with its place.
fn check(root: &Path, output: &mut impl Write) -> Result<(), Error> {
    let sources = sources::read(root)?;
    let (pages, others): (Vec<_>, Vec<_>) = sources.into_iter().partition(Source::is_page);
    let catalogue = Catalogue::parse(&pages);
    let coverage = Coverage::new(&catalogue, &citations::of_all(&others));
    write!(output, "{}", coverage.table()).map_err(Error::Output)?;
    let problems = coverage.problems();
    for problem in problems {
        writeln!(output, "{problem}").map_err(Error::Output)?;
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(Error::Problems(count)),
    }
}
