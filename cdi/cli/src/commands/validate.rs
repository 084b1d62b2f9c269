//! `cdi-gen validate`: what is wrong with specs, before a container fails.

mod check;
mod finding;
mod report;

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use host_doctor::{Host, RuntimeRelease, UnknownRuntime};
use imex_cdi::Registry;

use self::check::Criteria;
use self::report::ValidateReport;
use crate::args::{STDIN, Validate};
use crate::document;
use crate::host_specs::HostSpecs;
use crate::outcome::{CommandError, Failure, Outcome, UnreadFiles};
use crate::output::print;
use crate::stderr::note;

pub(super) fn run(args: Validate, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let Validate {
        inputs,
        targets,
        level,
        specs,
        json,
    } = args;
    let targets: Result<Vec<RuntimeRelease>, UnknownRuntime> =
        targets.iter().map(|target| target.parse()).collect();
    let mut report = ValidateReport::new(targets?);
    let specs = HostSpecs::open(&specs)?;
    let host = specs.host();
    let named = inputs.len();
    let unread = examine(inputs, &specs, &host, &mut report);
    report.findings.retain(|finding| finding.level >= level);
    print(&report, json, stdout)?;
    if named == 0 {
        specs.check_dirs()?;
    }
    if unread > 0 {
        let files = named;
        return Err(UnreadFiles { unread, files }.into());
    }
    if report.files.is_empty() && report.findings.is_empty() {
        note(&report.no_specs());
    }
    Ok(if report.findings.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// Adds every input to the report, or the host's specs if there is none.
/// Reports those that cannot be read, and returns their number.
fn examine(
    inputs: Vec<PathBuf>,
    specs: &HostSpecs,
    host: &Host,
    report: &mut ValidateReport,
) -> usize {
    if inputs.is_empty() {
        examine_dirs(&specs.registry(), host, report);
    }
    let mut unread = 0;
    let mut valid = Vec::new();
    for input in inputs {
        if input != Path::new(STDIN) && input.is_dir() {
            examine_dirs(&Registry::load(&[unlinked(input)]), host, report);
            continue;
        }
        match document::read_spec(&input) {
            Ok(bytes) => {
                let file = input.display().to_string();
                let criteria = Criteria {
                    targets: &report.targets,
                    // A single file may be for another host, unless this one has
                    // the driver.
                    host: Some(host).filter(|host| host.has_channels()),
                };
                let (findings, spec) = check::document(&file, &bytes, &criteria);
                report.findings.extend(findings);
                report.files.push(file);
                valid.extend(spec.map(|spec| (input, spec)));
            }
            Err(error) => {
                Failure::from(error).report();
                unread += 1;
            }
        }
    }
    report.findings.extend(check::conflicts_between(&valid));
    unread
}

fn examine_dirs(registry: &Registry, host: &Host, report: &mut ValidateReport) {
    report.add_dirs(registry.dirs());
    report.findings.extend(check::dirs(registry));
    for file in registry.files() {
        report.files.push(file.path.display().to_string());
        let criteria = Criteria {
            targets: &report.targets,
            host: Some(host),
        };
        let findings = check::file(file, &criteria);
        report.findings.extend(findings);
    }
    report.findings.extend(check::conflicts(registry));
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

// === impl UnknownRuntime ===

impl CommandError for UnknownRuntime {
    fn outcome(&self) -> Outcome {
        Outcome::Usage
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Self::hint(self).into())
    }
}
