//! Growth of the costs with twice as many domains: 2.0 is linear.

use std::io::Write;

use super::super::measured::{Change, Size};

/// A figure of a size.
type Figure = fn(&Size) -> f64;

const FIGURES: [(&str, Figure); 6] = [
    ("Ready", |size| {
        size.subject(|round| round.wall(Change::Create))
    }),
    ("floor", |size| {
        size.floor(|round| round.wall(Change::Create))
    }),
    ("CPU, Ready", |size| {
        size.subject(|round| round.cpu(Change::Create))
    }),
    ("gone", |size| {
        size.subject(|round| round.wall(Change::Delete))
    }),
    ("floor", |size| {
        size.floor(|round| round.wall(Change::Delete))
    }),
    ("CPU, gone", |size| {
        size.subject(|round| round.cpu(Change::Delete))
    }),
];

pub(super) fn write(out: &mut impl Write, sizes: &[Size]) -> anyhow::Result<()> {
    if sizes.len() < 2 {
        return Ok(());
    }
    write!(
        out,
        "Growth for each doubling between two sizes; linear: 2.0\n\n| domains |"
    )?;
    for (name, _) in FIGURES {
        write!(out, " {name} |")?;
    }
    writeln!(out, "\n|---|{}", "--:|".repeat(FIGURES.len()))?;
    for pair in sizes.windows(2) {
        let [one, other] = pair else { continue };
        write!(out, "| {} to {} |", one.domains, other.domains)?;
        for (_, figure) in FIGURES {
            let growth = other.growth_since(one, figure);
            write!(out, " {growth:.2} |")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
