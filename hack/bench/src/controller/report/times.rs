//! The times.

use std::io::Write;

use super::super::measured::{Change, Size};
use crate::table::verdict;

/// The limit of both ratios to the floor.
const RATIO: f64 = 1.5;

pub(super) fn write(out: &mut impl Write, at_once: u16, sizes: &[Size]) -> anyhow::Result<()> {
    writeln!(
        out,
        "Seconds from the user's first request until all domains are Ready, and until the last one is gone, medians; \
         floor: the writes alone, {at_once} domains at once; ratio: to the mean of the floors before and after the round; \
         CPU: seconds of the process\n\n\
         | domains | rounds | Ready | floor | ratio | gone | floor | ratio | aim | | CPU, Ready | floor | CPU, gone | floor |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|"
    )?;
    for size in sizes {
        let (create, delete) = (size.ratio(Change::Create), size.ratio(Change::Delete));
        write!(out, "| {} | {} |", size.domains, size.subject.len())?;
        for (change, ratio) in [(Change::Create, create), (Change::Delete, delete)] {
            let subject = size.subject(|round| round.wall(change));
            let floor = size.floor(|round| round.wall(change));
            write!(out, " {subject:.2} | {floor:.2} | {ratio:.2} |")?;
        }
        let met = verdict(create.max(delete) <= RATIO);
        write!(out, " {RATIO:.1}x | {met} |")?;
        for change in [Change::Create, Change::Delete] {
            let subject = size.subject(|round| round.cpu(change));
            let floor = size.floor(|round| round.cpu(change));
            write!(out, " {subject:.2} | {floor:.2} |")?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    Ok(())
}
