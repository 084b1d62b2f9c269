//! `cdi-gen why`: what became of every file that could define a device.

mod fix;
mod report;
mod words;

use std::io::Write;

use crate::args::Why;
use crate::failure::{Failure, Outcome};
use crate::printable::{printable, write_json};

use self::report::Answer;
pub(crate) use self::report::Report;
pub(crate) use self::words::lines;

pub(crate) fn run(args: Why, output: &mut impl Write) -> Result<Outcome, Failure> {
    let Why { name, specs, json } = args;
    let registry = specs.registry()?;
    let mut report = Report::of(&registry, &name);
    report.hold_against(&specs.host()?, &registry, &name);
    if json {
        write_json(&report, output).map_err(Failure::Output)?;
    } else {
        for line in lines(&report) {
            writeln!(output, "{}", printable(&line)).map_err(Failure::Output)?;
        }
    }
    Ok(match report.answer {
        Answer::Resolves => Outcome::Clean,
        Answer::Unusable => Outcome::Findings,
        Answer::Unresolved => Outcome::Unresolved,
        Answer::Unknown => Outcome::Unreadable,
    })
}
