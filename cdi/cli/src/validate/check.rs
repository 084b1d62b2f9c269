//! The findings of a file, of a directory, and between files.

use compute_domain_node::with_sources;
use imex_cdi::{DirState, LoadError, Registry, Spec, SpecError, SpecFile, SpecVersion, Warning};

use super::finding::Finding;
use super::runtimes::Target;
use crate::args::Level;

/// Of a text that was read from `file`.
pub(super) fn text(file: &str, bytes: &[u8], targets: &[Target]) -> Vec<Finding> {
    match Spec::parse(bytes) {
        Ok(spec) => valid(file, &spec, targets),
        Err(error) => vec![invalid(file, &error)],
    }
}

/// Of a file of a CDI directory.
pub(super) fn file(found: &SpecFile, targets: &[Target]) -> Vec<Finding> {
    let file = found.path.to_string_lossy();
    match &found.spec {
        Ok(spec) => valid(&file, spec, targets),
        Err(LoadError::Invalid { source, .. }) => vec![invalid(&file, source)],
        Err(error) => vec![Finding::error(
            &file,
            error.code(),
            with_sources(error),
            error.hint(),
        )],
    }
}

/// Of directories that hide their files.
pub(super) fn dirs(registry: &Registry) -> Vec<Finding> {
    let dirs = registry.dirs().iter();
    dirs.filter_map(|dir| match &dir.state {
        DirState::Skipped(error) => Some(Finding::error(
            &dir.path.to_string_lossy(),
            error.code(),
            with_sources(error),
            error.hint(),
        )),
        DirState::Listed | DirState::Absent => None,
    })
    .collect()
}

/// Of devices that two files of one directory define.
pub(super) fn conflicts(registry: &Registry) -> Vec<Finding> {
    let mut findings = Vec::new();
    for conflict in registry.conflicts() {
        for file in &conflict.files {
            findings.push(Finding::error(
                &file.path.to_string_lossy(),
                conflict.code(),
                conflict.to_string(),
                conflict.hint(),
            ));
        }
    }
    findings
}

fn valid(file: &str, spec: &Spec, targets: &[Target]) -> Vec<Finding> {
    let refused = targets.iter().filter_map(|it| refusal(file, spec, it));
    let warnings = spec.warnings().into_iter().map(|it| warning(file, &it));
    refused.chain(warnings).collect()
}

fn invalid(file: &str, error: &SpecError) -> Finding {
    let position = error.position();
    Finding {
        field: error.field().map(str::to_owned),
        line: position.map(|(line, _)| line),
        column: position.map(|(_, column)| column),
        ..Finding::error(file, error.code(), with_sources(error), error.hint())
    }
}

fn warning(file: &str, warning: &Warning) -> Finding {
    Finding {
        level: Level::Warn,
        field: Some(warning.field.clone()),
        ..Finding::error(file, warning.code(), warning.to_string(), warning.hint())
    }
}

/// A version that a runtime does not know makes it refuse the whole file.
fn refusal(file: &str, spec: &Spec, target: &Target) -> Option<Finding> {
    let newest = target.newest();
    let (declared, needed) = (spec.version(), spec.needed_version());
    if declared <= newest {
        return None;
    }
    let message = format!(
        "{} refuses the file: it says {declared}, and the newest version that {} loads is {newest}",
        target.name(),
        target.basis(),
    );
    let (field, fix) = if needed <= newest {
        (
            "cdiVersion".to_owned(),
            format!("say cdiVersion {needed}, which has all that the spec uses"),
        )
    } else {
        let fields = too_new(spec, newest);
        let rest = match fields.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let first = fields.into_iter().next();
        let (version, field) = first.unwrap_or_else(|| (needed, "cdiVersion".to_owned()));
        let fix = format!("leave out {field}{rest}, which {version} added, or upgrade the runtime");
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
