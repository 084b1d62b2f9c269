//! What a command found, as data, and its two views: JSON for scripts, text for
//! people.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::escape::escape_json;
use crate::outcome::Failure;
use crate::style::Style;

/// The JSON is the report's `Serialize`. Its `schema` names the shape: fields
/// may be added to a version; one that is removed, or changes its meaning, makes
/// the next.
pub(crate) trait Report: Serialize {
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()>;
}

/// How much is written at once, in bytes: an unbuffered output would be written to word by
/// word.
pub(crate) const PIECE: usize = 64 << 10;

/// Takes a JSON document in pieces that are UTF-8, as `serde_json` writes them.
struct Escaping<W>(W);

/// Prints the report to the end, so that what a command writes to stderr next
/// comes after it.
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
