//! `cdi-gen diff`: two specs, or two OCI configs, by what they mean.

use std::io::{self, Write};
use std::path::Path;

use imex_cdi::Spec;
use serde::Serialize;
use serde_json::Value;

use crate::args::Diff;
use crate::difference::{self, Difference, between_configs, between_specs};
use crate::document::{self, DocumentError};
use crate::outcome::{Failure, Outcome};
use crate::output::{Report, print};
use crate::style::Style;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DiffReport {
    schema: &'static str,
    old: String,
    new: String,
    differences: Vec<Difference>,
}

enum Document {
    Spec(Box<Spec>),
    Config(Value),
}

pub(super) fn run(args: Diff, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let Diff { old, new, json } = args;
    let differences = match (read(&old)?, read(&new)?) {
        (Document::Spec(old), Document::Spec(new)) => between_specs(&old, &new),
        (Document::Config(old), Document::Config(new)) => between_configs(&old, &new),
        _ => return Err(DocumentError::Different { old, new }.into()),
    };
    let diff = DiffReport {
        schema: "cdi-gen/diff/v1",
        old: old.display().to_string(),
        new: new.display().to_string(),
        differences,
    };
    print(&diff, json, stdout)?;
    Ok(if diff.differences.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

fn read(path: &Path) -> Result<Document, DocumentError> {
    let bytes = document::read(path)?;
    // A config is JSON; a spec may be YAML.
    if document::is_config(&bytes)
        && let Ok(value) = serde_json::from_slice(&bytes)
    {
        return Ok(Document::Config(value));
    }
    Ok(Document::Spec(Box::new(document::spec(path, &bytes)?)))
}

// === impl DiffReport ===

impl Report for DiffReport {
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()> {
        difference::write(&self.differences, style, output)
    }
}
