//! The findings in a file, in a directory, and between files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use dra_common::error_chain;
use host_doctor::{
    Host, NodeReport, NodeState, OneLetterKind, RuntimeRelease, and_more, declared_major,
    is_spec_name,
};
use imex_cdi::{
    DirState, Lint, LoadError, QualifiedName, Registry, ResolveError, Spec, SpecError, SpecFile,
    SpecVersion,
};

use super::report::{Finding, Findings};
use crate::args::Level;
use crate::input::{NOT_SPEC_HINT, directory_of, is_config, read_spec};

/// What specs are checked for.
pub(super) struct Criteria<'a> {
    pub(super) targets: &'a [RuntimeRelease],
    /// The host that the specs are for, if known.
    pub(super) host: Option<&'a Host>,
}

/// Checks a document that was read from `file`; returns its spec if it is valid.
pub(super) fn document(
    file: &str,
    bytes: &[u8],
    criteria: &Criteria<'_>,
    findings: &mut Findings,
) -> Option<Spec> {
    match Spec::parse_all(bytes) {
        Ok(spec) => {
            valid(file, &spec, criteria, findings);
            return Some(spec);
        }
        Err(_) if is_config(bytes) => findings.push(config(file)),
        Err(errors) => findings.extend(invalid(file, &errors)),
    }
    None
}

/// Checks a file of a CDI directory.
pub(super) fn file(found: &SpecFile, criteria: &Criteria<'_>, findings: &mut Findings) {
    let file = found.path.to_string_lossy();
    match &found.spec {
        Ok(spec) => valid(&file, spec, criteria, findings),
        Err(LoadError::Invalid { source, .. }) => match all_errors(&found.path) {
            Some(errors) => findings.extend(invalid(&file, &errors)),
            None => findings.extend(invalid(&file, std::slice::from_ref(source))),
        },
        Err(error) => findings.push(Finding::error(
            &file,
            error.code(),
            error_chain(error),
            error.hint(),
        )),
    }
}

/// All errors of an invalid file; `None` if it has been corrected or removed since.
fn all_errors(path: &Path) -> Option<Vec<SpecError>> {
    let bytes = read_spec(path).ok()?;
    Spec::parse_all(&bytes).err()
}

/// Directories that cannot be read, so that their files are not found.
pub(super) fn dirs(registry: &Registry) -> impl Iterator<Item = Finding> {
    let dirs = registry.dirs().iter();
    dirs.filter_map(|dir| match &dir.state {
        DirState::Skipped(error) => Some(Finding::error(
            &dir.path.to_string_lossy(),
            error.code(),
            error_chain(error),
            error.hint(),
        )),
        DirState::Listed | DirState::Absent => None,
    })
}

/// Devices that two files of one directory define.
pub(super) fn conflicts(registry: &Registry, findings: &mut Findings) {
    for conflict in registry.conflicts() {
        let files = conflict.files.iter().map(|file| file.path.as_path());
        let reported = (conflict.code(), &conflict as &dyn Display, conflict.hint());
        push_conflict(files, reported, findings);
    }
}

/// Adds the conflict to each of the files. `reported`: code, message and hint.
fn push_conflict<'a>(
    files: impl Iterator<Item = &'a Path>,
    reported: (&'static str, &dyn Display, &'static str),
    findings: &mut Findings,
) {
    let (code, message, hint) = reported;
    for file in files {
        let file = file.to_string_lossy();
        findings.push_with(Level::Error, &file, code, || {
            Finding::error(&file, code, message.to_string(), hint)
        });
    }
}

/// Devices that two files of one directory define, where the files were named one by one: runtimes
/// load both if it is a CDI directory.
pub(super) fn conflicts_between(specs: &[(PathBuf, Spec)], findings: &mut Findings) {
    let mut definitions: BTreeMap<_, Vec<&Path>> = BTreeMap::new();
    for (path, spec) in specs.iter().filter(|(path, _)| is_loaded(path)) {
        let place = fs::canonicalize(directory_of(path)).ok();
        for device in spec.devices() {
            let files = definitions
                .entry((place.clone(), spec.kind(), &device.name))
                .or_default();
            // The same file may be named twice.
            if files
                .iter()
                .all(|file| file.file_name() != path.file_name())
            {
                files.push(path);
            }
        }
    }
    let conflicts = definitions.iter().filter(|(_, files)| files.len() > 1);
    for ((_, kind, device), files) in conflicts {
        let conflict = ResolveError::Conflict {
            name: QualifiedName::new((*kind).clone(), (*device).clone()),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        };
        let reported = (conflict.code(), &conflict as &dyn Display, conflict.hint());
        push_conflict(files.iter().copied(), reported, findings);
    }
}

fn is_loaded(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(is_spec_name)
}

fn valid(file: &str, spec: &Spec, criteria: &Criteria<'_>, findings: &mut Findings) {
    let targets = criteria.targets.iter();
    findings.extend(targets.filter_map(|it| refusal(file, spec, it)));
    findings.extend(one_letter(file, spec, criteria.targets));
    findings.extend(stale(file, spec, criteria.host));
    spec.each_warning(|field, lint| {
        findings.push_with(Level::Warn, file, lint.code(), || {
            warning(file, field, lint)
        });
    });
}

/// The finding for a one-letter vendor or class, which crashes runtimes.
fn one_letter(file: &str, spec: &Spec, targets: &[RuntimeRelease]) -> Option<Finding> {
    let one_letter = OneLetterKind::of(spec.kind())?;
    let names: Vec<&str> = targets.iter().map(RuntimeRelease::name).collect();
    let who = match names.as_slice() {
        [] => "a runtime".to_owned(),
        names => names.join(", "),
    };
    let message = one_letter.message(&who);
    Some(Finding {
        field: Some("kind".to_owned()),
        ..Finding::error(file, OneLetterKind::CODE, message, OneLetterKind::FIX)
    })
}

/// The finding for channel nodes with a major that the driver does not have on this host.
fn stale(file: &str, spec: &Spec, host: Option<&Host>) -> Option<Finding> {
    let host = host?;
    let devices = spec.devices().iter().enumerate();
    let of_devices = devices.flat_map(|(at, device)| {
        let nodes = device.container_edits.device_nodes.iter().enumerate();
        nodes.map(move |(node_at, node)| {
            let field = format!("devices[{at}].containerEdits.deviceNodes[{node_at}].major");
            (field, node)
        })
    });
    let own = spec.container_edits().device_nodes.iter().enumerate();
    let own = own.map(|(at, node)| (format!("containerEdits.deviceNodes[{at}].major"), node));
    let mut stale = own.chain(of_devices).filter_map(|(field, node)| {
        let report = NodeReport::new(spec, node, host);
        let declared = declared_major(node).is_some();
        (declared && report.state == NodeState::Stale).then_some((field, report))
    });
    let (field, report) = stale.next()?;
    let others = and_more(stale.count());
    let message = report.message.unwrap_or_default();
    let message = format!("{field}: {message}{others}");
    let (code, fix) = (report.state.code(), report.fix.unwrap_or_default());
    Some(Finding::error(file, code, message, fix).warning_in(field))
}

fn config(file: &str) -> Finding {
    Finding::error(
        file,
        "oci-config",
        "this file is an OCI config (ociVersion is set), not a CDI spec".to_owned(),
        NOT_SPEC_HINT,
    )
}

fn invalid(file: &str, errors: &[SpecError]) -> Vec<Finding> {
    let found = errors.iter().map(|error| {
        let position = error.position();
        Finding {
            field: error.field().map(str::to_owned),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            ..Finding::error(file, error.code(), error_chain(error), error.hint())
        }
    });
    found.collect()
}

fn warning(file: &str, field: &dyn Display, lint: Lint) -> Finding {
    let message = format!("{field} {lint}");
    Finding::error(file, lint.code(), message, lint.hint()).warning_in(field.to_string())
}

/// A runtime refuses the whole file if it does not know the version.
fn refusal(file: &str, spec: &Spec, target: &RuntimeRelease) -> Option<Finding> {
    let newest = target.newest();
    let (declared, needed) = (spec.version(), spec.needed_version());
    if declared <= newest {
        return None;
    }
    let message = format!(
        "{} refuses the file: the file declares cdiVersion {declared}, and the newest version that {} loads is {newest}",
        target.name(),
        target.basis(),
    );
    let (field, fix) = if needed <= newest {
        (
            "cdiVersion".to_owned(),
            format!("declare cdiVersion {needed}, which supports every field in use"),
        )
    } else {
        let fields = too_new(spec, newest);
        let rest = match fields.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let first = fields.into_iter().next();
        let (version, field) = first.unwrap_or_else(|| (needed, "cdiVersion".to_owned()));
        let fix = format!(
            "upgrade the runtime, or leave out {field}{rest}: the field needs cdiVersion {version}"
        );
        (field, fix)
    };
    Some(Finding {
        field: Some(field),
        ..Finding::error(file, "cdi-version-too-new-for-runtime", message, fix)
    })
}

fn too_new(spec: &Spec, newest: SpecVersion) -> Vec<(SpecVersion, String)> {
    let needs = spec.needs();
    needs.filter(|(version, _)| *version > newest).collect()
}
