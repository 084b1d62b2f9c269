//! Checks that code and a test cite each requirement.
//!
//! ```text
//! docs/requirements/*.md ──► catalogue: requirements by id         ─┐
//! every other file       ──► citations of ids in code and in tests ─┴► coverage: table, problems
//! ```
//!
//! `requirements check` is part of `hack/test.sh`. `docs/requirements/README.md`
//! describes the form of requirements and citations.

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

/// The repository's root, two directories above this crate.
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

/// Prints the table, then one line for each problem.
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
