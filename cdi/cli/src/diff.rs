//! `cdi-gen diff`: two specs, or two OCI configs, by what they mean.
//!
//! ```text
//! bytes ──► Spec or config ──► a JSON value in which only that has an order
//!           whose order means something ──► differences
//! ```

mod compare;
mod meaning;
mod mounts;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use self::compare::{Change, Difference};
use crate::args::Diff;
use crate::document::{self, DocumentError};
use crate::failure::{Failure, Outcome};
use crate::paint::Paint;
use crate::printable::{printable, write_json};

const SCHEMA: &str = "cdi-gen/diff/v1";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    schema: &'static str,
    old: String,
    new: String,
    differences: Vec<Difference>,
}

/// A document in its own terms.
enum Document {
    Spec(Value),
    Config(Value),
}

pub(crate) fn run(args: Diff, output: &mut impl Write) -> Result<Outcome, Failure> {
    let Diff { old, new, json } = args;
    let ((Document::Spec(before), Document::Spec(after))
    | (Document::Config(before), Document::Config(after))) = (read(&old)?, read(&new)?)
    else {
        return Err(DocumentError::Different { old, new }.into());
    };
    let report = Report {
        schema: SCHEMA,
        old: old.to_string_lossy().into_owned(),
        new: new.to_string_lossy().into_owned(),
        differences: compare::differences(&before, &after),
    };
    if json {
        write_json(&report, output)
    } else {
        write_lines(&report.differences, Paint::of_stdout(), output)
    }
    .map_err(Failure::Output)?;
    Ok(if report.differences.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// As a comparison sees it.
pub(crate) fn between_configs(before: &Value, after: &Value) -> Vec<Difference> {
    compare::differences(&meaning::of_config(before), &meaning::of_config(after))
}

fn read(path: &Path) -> Result<Document, DocumentError> {
    let bytes = document::read(path)?;
    // A config is JSON; a spec may be YAML.
    if let Ok(value) = serde_json::from_slice::<Value>(&bytes)
        && value.get("ociVersion").is_some()
    {
        return Ok(Document::Config(meaning::of_config(&value)));
    }
    let spec = document::spec(path, &bytes)?;
    Ok(Document::Spec(meaning::of_spec(&spec)))
}

pub(crate) fn write_lines(
    differences: &[Difference],
    paint: Paint,
    output: &mut impl Write,
) -> io::Result<()> {
    for Difference {
        path,
        change,
        old,
        new,
    } in differences
    {
        let value =
            |value: &Option<Value>| value.as_ref().map_or_else(String::new, Value::to_string);
        let (old, new) = (value(old), value(new));
        let line = printable(&match change {
            Change::Removed => format!("- {path}: {old}"),
            Change::Added => format!("+ {path}: {new}"),
            Change::Changed => format!("~ {path}: {old} -> {new}"),
        });
        let line = match change {
            Change::Removed => paint.red(&line),
            Change::Added => paint.green(&line),
            Change::Changed => paint.yellow(&line),
        };
        writeln!(output, "{line}")?;
    }
    Ok(())
}
