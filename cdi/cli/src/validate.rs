//! `cdi-gen validate`: what is wrong with specs, before a container finds out.

mod check;
mod finding;
mod runtimes;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use imex_cdi::Registry;
use serde::Serialize;

use self::finding::Finding;
use self::runtimes::Target;
use crate::args::{Level, STDIN, SpecDirs, Validate};
use crate::document;
use crate::failure::{Failure, Outcome};
use crate::paint::Paint;
use crate::printable::{printable, write_json};

pub(crate) use self::runtimes::UnknownRuntime;

const SCHEMA: &str = "cdi-gen/validate/v1";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    schema: &'static str,
    targets: Vec<Target>,
    /// Those that were looked at.
    files: Vec<String>,
    findings: Vec<Finding>,
}

pub(crate) fn run(args: Validate, output: &mut impl Write) -> Result<Outcome, Failure> {
    let Validate {
        inputs,
        targets,
        level,
        specs,
        json,
    } = args;
    let targets: Result<Vec<Target>, UnknownRuntime> =
        targets.iter().map(|target| target.parse()).collect();
    let mut report = Report {
        schema: SCHEMA,
        targets: targets.map_err(Failure::UnknownRuntime)?,
        files: vec![],
        findings: vec![],
    };
    let (inputs_named, unread) = (inputs.len(), report.look(inputs, &specs)?);
    report.findings.retain(|finding| finding.level >= level);
    if json {
        write_json(&report, output)
    } else {
        write_lines(&report, Paint::of_stdout(), output)
    }
    .map_err(Failure::Output)?;
    match unread {
        0 if report.findings.is_empty() => Ok(Outcome::Clean),
        0 => Ok(Outcome::Findings),
        _ => Err(Failure::ReadSome {
            unread,
            files: inputs_named,
        }),
    }
}

/// A directory that is named here is meant, although a runtime would not follow
/// a CDI directory that is a link.
fn unlinked(dir: PathBuf) -> PathBuf {
    if dir.is_symlink() {
        fs::canonicalize(&dir).unwrap_or(dir)
    } else {
        dir
    }
}

// === impl Report ===

impl Report {
    /// Looks at every input, and says how many cannot be read.
    fn look(&mut self, inputs: Vec<PathBuf>, specs: &SpecDirs) -> Result<usize, Failure> {
        let mut unread = 0;
        if inputs.is_empty() {
            self.look_at_dirs(&specs.registry()?);
        }
        for input in inputs {
            if input != Path::new(STDIN) && input.is_dir() {
                self.look_at_dirs(&Registry::load(&[unlinked(input)]));
                continue;
            }
            let file = input.to_string_lossy().into_owned();
            match document::read(&input) {
                Ok(bytes) => {
                    let found = check::text(&file, &bytes, &self.targets);
                    self.findings.extend(found);
                    self.files.push(file);
                }
                Err(error) => {
                    Failure::from(error).report();
                    unread += 1;
                }
            }
        }
        Ok(unread)
    }

    fn look_at_dirs(&mut self, registry: &Registry) {
        self.findings.extend(check::dirs(registry));
        for file in registry.files() {
            self.files.push(file.path.to_string_lossy().into_owned());
            self.findings.extend(check::file(file, &self.targets));
        }
        self.findings.extend(check::conflicts(registry));
    }
}

fn write_lines(report: &Report, paint: Paint, output: &mut impl Write) -> io::Result<()> {
    for finding in &report.findings {
        let Finding {
            level,
            file,
            field: _,
            line,
            column,
            code,
            message,
            fix,
        } = finding;
        let place = match (line, column) {
            (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
            _ => file.clone(),
        };
        let word = match level {
            Level::Error => paint.red("error"),
            Level::Warn => paint.yellow("warn"),
        };
        writeln!(
            output,
            "{}: {word}: {} [{code}]",
            printable(&place),
            printable(&format!("{message}; {fix}"))
        )?;
    }
    for file in &report.files {
        if report.findings.iter().all(|finding| finding.file != *file) {
            writeln!(output, "{}: {}", printable(file), paint.green("OK"))?;
        }
    }
    Ok(())
}
