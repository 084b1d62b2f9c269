//! CDI: one file with every channel, a directory with the files of many claims, one
//! claim's file, and `cdi-gen`.

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
