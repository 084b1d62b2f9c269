//! Reports in two forms: JSON for scripts, and text for people, in columns that `grep` and `awk`
//! can use too.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::iter;

use serde::Serialize;

use crate::escape::{escape, escape_json, is_plain};
use crate::outcome::Failure;
use crate::terminal::Style;

/// What an empty cell shows, so that columns can be counted.
pub(crate) const EMPTY: &str = "-";

/// A report, printed as JSON (by `Serialize`) or as text. Its `schema` has a version: adding a
/// field keeps it; removing a field or changing its meaning needs the next one.
pub(crate) trait Report: Serialize {
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()>;
}

/// The size of a write buffer, in bytes: without one, the output is written word by word.
const PIECE: usize = 64 << 10;

/// A writer that escapes a JSON document, which comes in UTF-8 pieces from `serde_json`.
struct Escaping<W>(W);

/// Prints and flushes the report, so that later output on stderr follows it.
pub(crate) fn print(
    report: &impl Report,
    json: bool,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    if json {
        write_json(report, stdout)
    } else {
        report.write_text(Style::for_stdout(), stdout)
    }
    .and_then(|()| stdout.flush())
    .map_err(Failure::stdout)
}

/// Writes one JSON document.
pub(crate) fn write_json(report: &impl Serialize, output: &mut impl Write) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(PIECE, output);
    serde_json::to_writer_pretty(Escaping(&mut output), report)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// Writes headings and rows, each column as wide as its widest cell. Iterates over the rows twice
/// instead of keeping them.
pub(crate) fn write_table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]> + Clone,
    output: &mut impl Write,
) -> io::Result<()> {
    let headings = iter::once(headings.map(str::to_owned));
    let lines = headings.chain(rows.map(|row| row.map(cell)));
    let mut widths = [0; COLUMNS];
    for line in lines.clone() {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut output = BufWriter::with_capacity(PIECE, output);
    let mut text = String::new();
    for line in lines {
        text.clear();
        for (width, cell) in widths.iter().zip(line) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cell:<width$}  ");
        }
        writeln!(output, "{}", text.trim_end())?;
    }
    output.flush()
}

/// Writes the properties of one thing, a line each.
pub(crate) fn write_properties<'a>(
    properties: impl IntoIterator<Item = (&'a str, String)>,
    output: &mut impl Write,
) -> io::Result<()> {
    for (name, value) in properties {
        writeln!(output, "{name:<8}  {}", cell(value))?;
    }
    Ok(())
}

fn cell(text: String) -> String {
    match text.as_str() {
        "" => EMPTY.to_owned(),
        plain if is_plain(plain) => text,
        other => escape(other),
    }
}

// === impl Escaping ===

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_all(escape_json(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that counts writes.
    #[derive(Default)]
    struct Writes(usize, Vec<u8>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_table_is_written_in_few_pieces_however_many_rows_it_has() {
        let rows = (0..8192).map(|row| [row.to_string(), String::new()]);
        let mut writes = Writes::default();
        write_table(["A", "B"], rows, &mut writes).unwrap();
        assert!(writes.0 <= 2, "{}", writes.0);
        let text = String::from_utf8(writes.1).unwrap();
        assert_eq!(text.lines().count(), 8193);
        assert_eq!(text.lines().next(), Some("A     B"));
        assert_eq!(text.lines().last(), Some("8191  -"));
    }
}
