//! The process's memory, and its start time when all domains exist.

use std::io::Write;
use std::time::Duration;

use super::super::measured::{Round, Size, mib, seconds};
use crate::table::verdict;

/// Limits of anonymous memory: (up to this number of domains, KiB).
const MEMORY: [(usize, u64); 2] = [(200, 8 * 1024), (10_000, 60 * 1024)];

/// The limit for the time until a new process has settled when all domains exist.
const SETTLED: Duration = Duration::from_secs(15);

pub(super) fn write(out: &mut impl Write, sizes: &[Size]) -> anyhow::Result<()> {
    writeln!(
        out,
        "RssAnon of the subject in MiB: the largest of all rounds, seen every 50 ms; settled: nothing left to do; restart: a new process with all \
         domains there, seconds from its start until it is settled; ended: seconds after SIGTERM\n\n\
         | domains | at start | creating | settled | restart | settled | deleting | settled | aim | | ended | restart settled | aim | |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|---|"
    )?;
    for size in sizes {
        row(out, size)?;
    }
    writeln!(out)?;
    Ok(())
}

fn row(out: &mut impl Write, size: &Size) -> anyhow::Result<()> {
    let largest = |value: fn(&Round) -> u64| {
        let values = size.subject.iter().map(value);
        values.max().unwrap_or_default()
    };
    let memory = [
        largest(|round| round.started_kib),
        largest(|round| round.create.peak_kib),
        largest(|round| round.create.settled_kib),
        largest(|round| round.rest.as_ref().map_or(0, |rest| rest.peak_kib)),
        largest(|round| round.rest.as_ref().map_or(0, |rest| rest.settled_kib)),
        largest(|round| round.delete.peak_kib),
        largest(|round| round.delete.settled_kib),
    ];
    write!(out, "| {} |", size.domains)?;
    for kib in memory {
        write!(out, " {} |", mib(kib))?;
    }
    match MEMORY.iter().find(|(most, _)| size.domains <= *most) {
        Some((_, aim)) => {
            let met = memory.iter().all(|kib| kib <= aim);
            write!(out, " {} | {} |", mib(*aim), verdict(met))?;
        }
        None => write!(out, " | |")?,
    }
    for rest in size.subject.iter().filter_map(|round| round.rest.as_ref()) {
        let met = verdict(rest.settled_in <= SETTLED);
        let (ended, settled) = (seconds(rest.ended_in), seconds(rest.settled_in));
        write!(out, " {ended} | {settled} | {} | {met} |", seconds(SETTLED))?;
    }
    writeln!(out)?;
    Ok(())
}
