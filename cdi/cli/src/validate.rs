//! `cdi-gen validate`: what is wrong with specs, before a container finds out.

mod check;
mod finding;
mod runtimes;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use imex_cdi::{DirState, Registry};
use serde::Serialize;

use self::check::Bench;
use self::finding::Finding;
use crate::args::{Level, STDIN, SpecDirs, Validate};
use crate::document;
use crate::failure::{Failure, Outcome, note};
use crate::host::Host;
use crate::paint::Paint;
use crate::printable::{printable, write_json};

pub(crate) use self::runtimes::{Target, UnknownRuntime};

const SCHEMA: &str = "cdi-gen/validate/v1";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    schema: &'static str,
    targets: Vec<Target>,
    /// Those that were looked at.
    files: Vec<String>,
    findings: Vec<Finding>,
    /// Those that were looked into, with whether they are there.
    #[serde(skip)]
    dirs: Vec<(String, bool)>,
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
        dirs: vec![],
    };
    let host = specs.host()?;
    let (inputs_named, unread) = (inputs.len(), report.look(inputs, &specs, &host)?);
    report.findings.retain(|finding| finding.level >= level);
    if json {
        write_json(&report, output)
    } else {
        write_lines(&report, Paint::of_stdout(), output)
    }
    .map_err(Failure::Output)?;
    output.flush().map_err(Failure::Output)?;
    if inputs_named == 0 {
        specs.refuse_absent()?;
    }
    if report.files.is_empty() && report.findings.is_empty() && unread == 0 {
        note(&nothing(&report.dirs));
    }
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
    fn look(
        &mut self,
        inputs: Vec<PathBuf>,
        specs: &SpecDirs,
        host: &Host,
    ) -> Result<usize, Failure> {
        let mut unread = 0;
        let mut valid = Vec::new();
        if inputs.is_empty() {
            self.look_at_dirs(&specs.registry()?, host);
        }
        for input in inputs {
            if input != Path::new(STDIN) && input.is_dir() {
                self.look_at_dirs(&Registry::load(&[unlinked(input)]), host);
                continue;
            }
            let file = input.to_string_lossy().into_owned();
            match document::read(&input) {
                Ok(bytes) => {
                    // A file from anywhere may be for a host with the driver.
                    let host = Some(host).filter(|host| host.has_channels());
                    let (found, spec) = check::text(&file, &bytes, &self.bench(host));
                    self.findings.extend(found);
                    self.files.push(file);
                    valid.extend(spec.map(|spec| (input, spec)));
                }
                Err(error) => {
                    Failure::from(error).report();
                    unread += 1;
                }
            }
        }
        self.findings.extend(check::conflicts_between(&valid));
        Ok(unread)
    }

    fn look_at_dirs(&mut self, registry: &Registry, host: &Host) {
        let dirs = registry.dirs().iter();
        self.dirs.extend(dirs.map(|dir| {
            let is_there = !matches!(dir.state, DirState::Absent);
            (dir.path.to_string_lossy().into_owned(), is_there)
        }));
        self.findings.extend(check::dirs(registry));
        for file in registry.files() {
            self.files.push(file.path.to_string_lossy().into_owned());
            let found = check::file(file, &self.bench(Some(host)));
            self.findings.extend(found);
        }
        self.findings.extend(check::conflicts(registry));
    }

    fn bench<'a>(&'a self, host: Option<&'a Host>) -> Bench<'a> {
        Bench {
            targets: &self.targets,
            host,
        }
    }
}

/// That there was nothing to judge, which is not the same as nothing wrong.
fn nothing(dirs: &[(String, bool)]) -> String {
    let words = dirs.iter().map(|(path, is_there)| match is_there {
        true => path.clone(),
        false => format!("{path} (does not exist)"),
    });
    let words: Vec<String> = words.collect();
    format!(
        "no CDI spec was looked at: there is none in {}",
        words.join(", ")
    )
}

fn write_lines(report: &Report, paint: Paint, output: &mut impl Write) -> io::Result<()> {
    let mut text = String::new();
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
        // Where the place has it, the message need not.
        let (place, message) = match (line, column) {
            (Some(line), Some(column)) => {
                let position = format!(" (line {line}, column {column})");
                let place = format!("{file}:{line}:{column}");
                (place, message.replacen(&position, "", 1))
            }
            _ => (file.clone(), message.clone()),
        };
        let word = match level {
            Level::Error => paint.red("error"),
            Level::Warn => paint.yellow("warn"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}: {word}: {} [{code}]",
            printable(&place),
            printable(&format!("{message}; {fix}"))
        );
    }
    let bad: BTreeSet<&str> = report.findings.iter().map(|it| it.file.as_str()).collect();
    for file in report
        .files
        .iter()
        .filter(|file| !bad.contains(file.as_str()))
    {
        let _ = writeln!(text, "{}: {}", printable(file), paint.green("OK"));
    }
    output.write_all(text.as_bytes())
}
