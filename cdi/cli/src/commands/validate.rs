//! `cdi-gen validate`: finds errors in specs before a container fails.

mod check;
mod report;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use host_doctor::{Host, Majors, UnknownRuntime};
use imex_cdi::{DirError, DirState, LoadError, Registry};

use self::check::Criteria;
use self::report::{Findings, ValidateReport};
use crate::args::{STDIN, Validate};
use crate::host_specs::{HostSpecs, describe_dir};
use crate::input::read_spec;
use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::terminal::note;

/// The number of unreadable files, and of all files.
#[derive(Default)]
struct UnreadFiles {
    unread: usize,
    files: usize,
}

pub(super) fn run(args: Validate, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let targets = args.targets.iter().map(|text| {
        text.parse().map_err(|error: UnknownRuntime| {
            Failure::new(Outcome::Usage, error.to_string()).hint(error.hint())
        })
    });
    let mut report = ValidateReport::new(targets.collect::<Result<_, _>>()?);
    let specs = HostSpecs::open(&args.specs)?;
    let mut findings = Findings::new(args.level);
    let is_named = !args.inputs.is_empty();
    let UnreadFiles { unread, files } = examine(args.inputs, &specs, &mut report, &mut findings);
    report.add_findings(findings);
    print(&report, args.json, stdout)?;
    if !is_named {
        specs.check_dirs()?;
    }
    if unread > 0 {
        return Err(Failure::unread(unread, files));
    }
    if report.files.is_empty() && report.findings.is_empty() {
        // Finding no spec is not the same as finding no error.
        let dirs = report.dirs.join(", ");
        let nothing = format!("no CDI spec found in {dirs}: nothing was checked");
        if is_named {
            return Err(Failure::new(Outcome::Io, nothing)
                .hint("runtimes read files that end in .json or .yaml; check the path"));
        }
        // A host without specs is healthy.
        note(&nothing);
    }
    Ok(Outcome::of(report.findings.is_empty()))
}

/// Adds every input to the report, or the host's specs if there is none.
/// Reports inputs that cannot be read, and returns their number and that of all.
fn examine(
    inputs: Vec<PathBuf>,
    specs: &HostSpecs,
    report: &mut ValidateReport,
    findings: &mut Findings,
) -> UnreadFiles {
    let host = &specs.host;
    let mut unread = UnreadFiles::default();
    if inputs.is_empty() {
        let registry = specs.registry();
        unread.add(&registry);
        examine_dirs(&registry, host, report, findings);
    }
    let mut valid = Vec::new();
    for input in inputs {
        if input != Path::new(STDIN) && input.is_dir() {
            let registry = Registry::load(&[follow_link(input)]);
            unread.add(&registry);
            examine_dirs(&registry, host, report, findings);
            continue;
        }
        unread.files += 1;
        match read_spec(&input) {
            Ok(bytes) => {
                let file = input.display().to_string();
                let criteria = Criteria {
                    targets: &report.targets,
                    // A single file may be for another host, unless this one has
                    // the driver.
                    host: Some(host).filter(|host| host.majors().is_some_and(Majors::has_channels)),
                };
                let spec = check::document(&file, &bytes, &criteria, findings);
                report.files.push(file);
                valid.extend(spec.map(|spec| (input, spec)));
            }
            Err(failure) => {
                failure.report();
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
    report.dirs.extend(registry.dirs().iter().map(describe_dir));
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

/// Follows a link to a directory that the user named, although a runtime would not follow a CDI
/// directory that is a link.
fn follow_link(dir: PathBuf) -> PathBuf {
    if dir.is_symlink() {
        fs::canonicalize(&dir).unwrap_or(dir)
    } else {
        dir
    }
}

// === impl UnreadFiles ===

impl UnreadFiles {
    /// Adds the files of directories, and directories that cannot be listed.
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
