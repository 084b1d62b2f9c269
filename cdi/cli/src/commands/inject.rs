//! `cdi-gen inject`: adds CDI devices to an OCI config, all or none.

mod error;
mod explain;
mod replace;
mod warn;

use std::io::{self, Write};
use std::path::Path;

use imex_cdi::{Plan, PlanError, Registry, Spec};
use serde_json::Value;

use self::error::InjectError;
use crate::args::{Inject, STDIN};
use crate::difference;
use crate::document::{self, DocumentError};
use crate::explanation::UnresolvedError;
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};
use crate::selection;
use crate::style::Style;

pub(super) fn run(args: Inject, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let Inject {
        config: path,
        names,
        devices: mut wanted,
        in_place,
        backup,
        dry_run,
        explain,
        specs,
    } = args;
    if in_place && path == Path::new(STDIN) {
        return Err(InjectError::StdinInPlace.into());
    }
    let bytes = document::read(&path)?;
    let before = config(&path, &bytes)?;
    let specs = HostSpecs::open(&specs)?;
    let (registry, host) = (specs.registry(), specs.host());
    wanted.extend(names);
    let devices = selection::expand(&registry, &wanted)?;
    let plan = Plan::new(&registry, &devices, &before, &host)
        .map_err(|error| failure(&path, &registry, error))?;
    warn::about(&plan, &before, &host);
    let mut after = before.clone();
    plan.apply(&mut after);
    if dry_run {
        let explained = explain.then_some(&plan);
        write_changes(&before, &after, explained, stdout).map_err(Failure::stdout)?;
        return Ok(Outcome::Clean);
    }
    if explain {
        // If stderr is closed, the result still counts.
        let _ = explain::write(&plan, &before, &mut io::stderr().lock());
    }
    let text = text(&bytes, &before, &after);
    if in_place {
        replace::config(&path, &bytes, &text, backup)?;
    } else {
        stdout.write_all(&text).map_err(Failure::stdout)?;
    }
    Ok(Outcome::Clean)
}

/// The config in `bytes`; an error for another document. JSON that is not an
/// object is left to the plan, which refuses its shape.
fn config(path: &Path, bytes: &[u8]) -> Result<Value, DocumentError> {
    const A_SPEC: &str = "it has cdiVersion, as CDI specs do";
    let path = path.to_owned();
    let what = match serde_json::from_slice(bytes) {
        // Specs may be YAML.
        Err(_) if Spec::parse(bytes).is_ok() => A_SPEC,
        Err(source) => return Err(DocumentError::Json { path, source }),
        Ok(Value::Object(members)) if members.contains_key("ociVersion") => {
            return Ok(Value::Object(members));
        }
        Ok(Value::Object(members)) if members.contains_key("cdiVersion") => A_SPEC,
        Ok(Value::Object(_)) => "it has no ociVersion",
        Ok(value) => return Ok(value),
    };
    Err(DocumentError::NotConfig { path, what })
}

/// The differences and, if it is to be explained, the plan.
fn write_changes(
    before: &Value,
    after: &Value,
    explained: Option<&Plan>,
    output: &mut impl Write,
) -> io::Result<()> {
    let differences = difference::between_configs(before, after);
    difference::write(&differences, Style::for_stdout(), output)?;
    if let Some(plan) = explained {
        writeln!(output)?;
        explain::write(plan, before, output)?;
    }
    Ok(())
}

// req: DOCTOR-10
fn failure(path: &Path, registry: &Registry, error: PlanError) -> Failure {
    match error {
        PlanError::Unresolved(names) => {
            UnresolvedError::new(registry, &names, Some("nothing was written")).into()
        }
        PlanError::Config(source) => DocumentError::Config {
            path: path.to_owned(),
            source,
        }
        .into(),
        other => InjectError::Plan(other).into(),
    }
}

/// The old text if nothing changed; otherwise JSON laid out as before, on one line
/// or on several.
fn text(bytes: &[u8], before: &Value, after: &Value) -> Vec<u8> {
    if before == after {
        return bytes.to_vec();
    }
    let content = bytes.trim_ascii();
    let mut text = if content.contains(&b'\n') {
        format!("{after:#}")
    } else {
        after.to_string()
    };
    if bytes.ends_with(b"\n") {
        text.push('\n');
    }
    text.into_bytes()
}
