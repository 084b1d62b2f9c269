//! Differences for people, a line each.

use std::io::{self, Write};

use serde_json::Value;

use super::compare::{Change, Difference};
use crate::escape::escape;
use crate::style::Style;

pub(crate) fn write(
    differences: &[Difference],
    style: Style,
    output: &mut impl Write,
) -> io::Result<()> {
    for Difference {
        path,
        change,
        old,
        new,
    } in differences
    {
        let text =
            |value: &Option<Value>| value.as_ref().map_or_else(String::new, Value::to_string);
        let (old, new) = (text(old), text(new));
        let line = match change {
            Change::Removed => style.red(&escape(&format!("- {path}: {old}"))),
            Change::Added => style.green(&escape(&format!("+ {path}: {new}"))),
            Change::Changed => style.yellow(&escape(&format!("~ {path}: {old} -> {new}"))),
        };
        writeln!(output, "{line}")?;
    }
    Ok(())
}
