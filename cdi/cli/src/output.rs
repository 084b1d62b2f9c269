//! What a command found, as data, and its two views: JSON for scripts, text for
//! people.

use std::io::{self, Write};

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
    let document = serde_json::to_string_pretty(report)?;
    // In one write, however long it is.
    output.write_all((escape_json(&document) + "\n").as_bytes())
}
