//! `cdi-gen inject`: plan, then apply, then write; or nothing at all.

mod error;
mod explain;

use std::io::{self, Write};
use std::path::Path;

use durable_file::{Dir, OsDir};
use imex_cdi::{Plan, PlanError, Registry};
use serde_json::Value;

pub(crate) use self::error::InjectError;
use crate::args::{Inject, STDIN};
use crate::diff;
use crate::document::{self, DocumentError};
use crate::failure::{Failure, Outcome};
use crate::paint::Paint;

pub(crate) fn run(args: Inject, output: &mut impl Write) -> Result<Outcome, Failure> {
    let Inject {
        config: path,
        devices,
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
    let before: Value = serde_json::from_slice(&bytes).map_err(|source| DocumentError::Json {
        path: path.clone(),
        source,
    })?;
    let registry = specs.registry()?;
    let plan = Plan::new(&registry, &devices, &before, &specs.root()?)
        .map_err(|error| refused(&path, &registry, error))?;
    let mut after = before.clone();
    plan.apply(&mut after);
    if dry_run {
        let differences = diff::between_configs(&before, &after);
        diff::write_lines(&differences, Paint::of_stdout(), output).map_err(Failure::Output)?;
        if explain {
            writeln!(output)
                .and_then(|()| explain::write(&plan, output))
                .map_err(Failure::Output)?;
        }
        return Ok(Outcome::Clean);
    }
    if explain {
        // Stderr may be closed: the result is what counts.
        let _ = explain::write(&plan, &mut io::stderr().lock());
    }
    let text = text(&bytes, &before, &after);
    if in_place {
        replace(&path, &bytes, &text, backup)?;
    } else {
        output.write_all(&text).map_err(Failure::Output)?;
    }
    Ok(Outcome::Clean)
}

fn refused(path: &Path, registry: &Registry, error: PlanError) -> Failure {
    match error {
        PlanError::Unresolved(names) => {
            Failure::unresolved(registry, &names, Some("nothing was written"))
        }
        PlanError::Config(source) => DocumentError::Config {
            path: path.to_owned(),
            source,
        }
        .into(),
        other => InjectError::Plan(other).into(),
    }
}

/// The config as it was if nothing changed; else as JSON that is laid out as it
/// was, on one line or on many.
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

/// Whoever reads the config meanwhile, or after a crash, has the old or the new.
fn replace(path: &Path, old: &[u8], new: &[u8], backup: bool) -> Result<(), InjectError> {
    let cannot_write = |source| InjectError::Write {
        path: path.to_owned(),
        source,
    };
    let (parent, name, mode) = error::place(path)?;
    let dir = OsDir::open(parent).map_err(cannot_write)?;
    if backup {
        let name = format!("{name}.bak");
        dir.replace(&name, old, mode).map_err(cannot_write)?;
    }
    dir.replace(&name, new, mode)
        .map(drop)
        .map_err(cannot_write)
}
