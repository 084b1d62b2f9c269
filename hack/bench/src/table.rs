//! The report: ratios with a verdict, and times for information.

use std::io::{self, Write};
use std::time::Duration;

use crate::disk::Scratch;
use crate::rounds::Rounds;

/// One subject at one size.
pub(crate) struct Row {
    /// The amount and kind of the data.
    pub(crate) of: String,
    /// The file that is read or written, or the program that runs.
    pub(crate) file_bytes: usize,
    pub(crate) operation: &'static str,
    pub(crate) rounds: Rounds,
    pub(crate) aim: Option<Aim>,
}

/// A figure other than a time, measured once.
pub(crate) struct Fact {
    pub(crate) what: &'static str,
    pub(crate) bytes: u64,
    /// The limit, in bytes.
    pub(crate) aim: u64,
}

/// The criterion of a row's verdict.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    /// The median ratio to the floor.
    Ratio(f64),
    /// The median time.
    Within(Duration),
}

pub(crate) fn write(
    out: &mut impl Write,
    scratch: &Scratch,
    rounds: usize,
    rows: &[Row],
) -> io::Result<()> {
    writeln!(
        out,
        "{rounds} rounds on {}; times in ms; ratio: of operation / floor in the same round, median and p10-p90; CPU: of all threads, median; written: in whole files",
        scratch.filesystem
    )?;
    writeln!(out)?;
    writeln!(
        out,
        "| of | file | operation / floor | median | p99 | floor | ratio | p10-p90 | CPU | written | aim | |"
    )?;
    writeln!(out, "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")?;
    for row in rows {
        write_row(out, row)?;
    }
    Ok(())
}

pub(crate) fn write_facts(out: &mut impl Write, facts: &[Fact]) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "| measured once | MB | aim | |")?;
    writeln!(out, "|---|--:|--:|---|")?;
    for Fact { what, bytes, aim } in facts {
        let verdict = verdict(bytes <= aim);
        writeln!(
            out,
            "| {what} | {} | {} | {verdict} |",
            mb(*bytes),
            mb(*aim)
        )?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "files are far below 2^52 bytes")]
fn mb(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

pub(crate) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

#[expect(clippy::cast_precision_loss, reason = "files are far below 2^52 bytes")]
fn write_row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let Row {
        of,
        file_bytes,
        operation,
        rounds,
        aim,
    } = row;
    writeln!(
        out,
        "| {of} | {:.1} kB | {operation} | {} | {} | {} | {:.2} | {:.2}-{:.2} | {} | {:.1} | {} | {} |",
        *file_bytes as f64 / 1000.0,
        ms(rounds.wall(50)),
        ms(rounds.wall(99)),
        ms(rounds.floor()),
        rounds.ratio(50),
        rounds.ratio(10),
        rounds.ratio(90),
        ms(rounds.cpu()),
        rounds.written() as f64 / *file_bytes as f64,
        aim.map(Aim::text).unwrap_or_default(),
        aim.map(|aim| aim.verdict(rounds)).unwrap_or_default(),
    )
}

/// Milliseconds.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}

// === impl Aim ===

impl Aim {
    fn text(self) -> String {
        match self {
            Self::Ratio(ratio) => format!("{ratio:.1}x"),
            Self::Within(time) => format!("{} ms", time.as_secs_f64() * 1000.0),
        }
    }

    fn verdict(self, rounds: &Rounds) -> &'static str {
        verdict(match self {
            Self::Ratio(ratio) => rounds.ratio(50) <= ratio,
            Self::Within(time) => rounds.wall(50) <= time,
        })
    }
}
