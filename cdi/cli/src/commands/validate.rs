//! `cdi-gen validate`: what is wrong with specs, before a container fails.

mod check;
mod finding;
mod report;
mod target;

use std::borrow::Cow;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use host_doctor::{Host, RuntimeRelease, UnknownRuntime};
use imex_cdi::{DirError, DirState, LoadError, Registry};

use self::check::Criteria;
use self::finding::Findings;
use self::report::ValidateReport;
use crate::args::{STDIN, Validate};
use crate::document;
use crate::host_specs::HostSpecs;
use crate::outcome::{CommandError, Failure, Outcome, UnreadFiles};
use crate::output::print;
use crate::stderr::note;

/// What was named has no specs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NothingChecked(String);

pub(super) fn run(args: Validate, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let Validate {
        inputs,
        targets,
        level,
        specs,
        json,
    } = args;
    let targets: Result<Vec<RuntimeRelease>, UnknownRuntime> =
        targets.iter().map(|text| target::parse(text)).collect();
    let mut report = ValidateReport::new(targets?);
    let specs = HostSpecs::open(&specs)?;
    let host = specs.host();
    let mut findings = Findings::new(level);
    let is_named = !inputs.is_empty();
    let unread = examine(inputs, &specs, &host, &mut report, &mut findings);
    report.add_findings(findings);
    print(&report, json, stdout)?;
    if !is_named {
        specs.check_dirs()?;
    }
    if unread.unread > 0 {
        return Err(unread.into());
    }
    if report.files.is_empty() && report.findings.is_empty() {
        let nothing = NothingChecked(report.no_specs());
        if is_named {
            return Err(nothing.into());
        }
        // A host without specs is a sound one.
        note(&nothing.to_string());
    }
    Ok(if report.findings.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// Adds every input to the report, or the host's specs if there is none.
/// Reports those that cannot be read, and returns how many of how many that are.
fn examine(
    inputs: Vec<PathBuf>,
    specs: &HostSpecs,
    host: &Host,
    report: &mut ValidateReport,
    findings: &mut Findings,
) -> UnreadFiles {
    let mut unread = UnreadFiles::default();
    if inputs.is_empty() {
        let registry = specs.registry();
        unread.add(&registry);
        examine_dirs(&registry, host, report, findings);
    }
    let mut valid = Vec::new();
    for input in inputs {
        if input != Path::new(STDIN) && input.is_dir() {
            let registry = Registry::load(&[unlinked(input)]);
            unread.add(&registry);
            examine_dirs(&registry, host, report, findings);
            continue;
        }
        unread.files += 1;
        match document::read_spec(&input) {
            Ok(bytes) => {
                let file = input.display().to_string();
                let criteria = Criteria {
                    targets: &report.targets,
                    // A single file may be for another host, unless this one has
                    // the driver.
                    host: Some(host).filter(|host| host.has_channels()),
                };
                let spec = check::document(&file, &bytes, &criteria, findings);
                report.files.push(file);
                valid.extend(spec.map(|spec| (input, spec)));
            }
            Err(error) => {
                Failure::from(error).report();
                unread.unread += 1;
            }
        }
    }
    check::conflicts_between(&valid, findings);
    unread
}

fn examine_dirs(
    registry: &Registry,
    host: &Host,
    report: &mut ValidateReport,
    findings: &mut Findings,
) {
    report.add_dirs(registry.dirs());
    findings.extend(check::dirs(registry));
    for file in registry.files() {
        report.files.push(file.path.display().to_string());
        let criteria = Criteria {
            targets: &report.targets,
            host: Some(host),
        };
        check::file(file, &criteria, findings);
    }
    check::conflicts(registry, findings);
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

// === impl UnreadFiles ===

impl UnreadFiles {
    /// The files of directories, and directories that cannot be listed.
    fn add(&mut self, registry: &Registry) {
        let unlisted = registry
            .dirs()
            .iter()
            .filter(|dir| matches!(&dir.state, DirState::Skipped(DirError::Unlistable { .. })));
        let unlisted = unlisted.count();
        let files = registry.files().iter();
        let unread = files.filter(|file| matches!(&file.spec, Err(LoadError::Read { .. })));
        self.unread += unread.count() + unlisted;
        self.files += registry.files().len() + unlisted;
    }
}

// === impl NothingChecked ===

impl CommandError for NothingChecked {
    fn outcome(&self) -> Outcome {
        Outcome::Io
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        Some("runtimes read files that end in .json or .yaml; check the path".into())
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
