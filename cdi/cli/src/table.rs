//! Rows in columns that `grep` and `awk` can use too.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::printable::printable;

/// What an empty cell shows, so that columns can be counted.
pub(crate) const NOTHING: &str = "-";

/// Writes headings and rows, each column as wide as its widest cell.
pub(crate) fn write<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut lines = vec![headings.map(str::to_owned)];
    lines.extend(rows.into_iter().map(|row| row.map(|cell| shown(&cell))));
    let mut widths = [0; COLUMNS];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    for line in &lines {
        let mut text = String::new();
        for (width, cell) in widths.iter().zip(line) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cell:<width$}  ");
        }
        writeln!(output, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Writes what is known of one thing, a line each.
pub(crate) fn write_facts<'a>(
    facts: impl IntoIterator<Item = (&'a str, String)>,
    output: &mut impl Write,
) -> io::Result<()> {
    for (what, text) in facts {
        writeln!(output, "{what:<8}  {}", shown(&text))?;
    }
    Ok(())
}

fn shown(cell: &str) -> String {
    if cell.is_empty() {
        NOTHING.to_owned()
    } else {
        printable(cell)
    }
}
