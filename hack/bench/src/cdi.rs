//! CDI benchmarks: one file with every channel, a directory with files of many claims,
//! the file of one claim, and `cdi-gen`.

mod claims;
mod program;
mod specs;

use crate::disk::Scratch;
use crate::table::{Fact, Row};

pub(crate) use specs::peak_of_parsing;

pub(crate) fn run(scratch: &Scratch, rounds: usize) -> anyhow::Result<(Vec<Row>, Vec<Fact>)> {
    let mut rows = specs::rows(scratch, rounds)?;
    rows.extend(claims::rows(scratch, rounds)?);
    rows.extend(program::rows(scratch, rounds)?);
    let mut facts = specs::facts(scratch)?;
    facts.push(program::size()?);
    Ok((rows, facts))
}
