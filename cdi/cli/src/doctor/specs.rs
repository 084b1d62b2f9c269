//! The CDI specs of a host, against its runtimes and its nodes.

mod channels;

use compute_domain_node::with_sources;
use imex_cdi::{PROC_DEVICES, Registry, Spec, SpecFile};

use super::files::Files;
use super::finding::{Checked, Finding};
use super::given::Given;
use super::report::counted;
use super::runtimes::Runtime;
use crate::host::Host;
use crate::host_node::{GENERATE, NodeReport, NodeState, nodes_of, told};

pub(super) fn check(
    files: &Files,
    host: &Host,
    registry: &Registry,
    runtimes: &[Runtime],
    given: Given<'_>,
) -> Checked {
    let mut findings = Vec::new();
    for file in registry.files() {
        findings.extend(of_file(files, file, runtimes));
    }
    findings.extend(of_nodes(files, host, registry, given));
    findings.extend(channels::beyond_count(files, host, registry));
    findings.extend(registry.conflicts().map(|conflict| {
        let paths: Vec<String> = conflict
            .files
            .iter()
            .map(|it| files.shown(&it.path))
            .collect();
        Finding::error(
            conflict.code(),
            conflict.name.to_string(),
            format!(
                "{} define it, so that it resolves nowhere",
                paths.join(" and ")
            ),
            conflict.hint(),
        )
    }));
    let count = counted(registry.files().len(), "file");
    let devices = counted(registry.devices().count(), "resolved device");
    Checked::new(format!("{count}, {devices}"), findings)
}

fn of_file(files: &Files, file: &SpecFile, runtimes: &[Runtime]) -> Vec<Finding> {
    let shown = files.shown(&file.path);
    match &file.spec {
        Ok(spec) => too_new(&shown, spec, runtimes),
        Err(error) => {
            let (code, hint) = (error.code(), error.hint());
            let finding = Finding::error(code, shown, with_sources(error), hint).quoting();
            vec![finding.naming(files, &file.path)]
        }
    }
}

/// A version that a runtime does not know makes it refuse the whole file.
fn too_new(file: &str, spec: &Spec, runtimes: &[Runtime]) -> Vec<Finding> {
    let (declared, needed) = (spec.version(), spec.needed_version());
    let refusing = runtimes
        .iter()
        .filter_map(|runtime| Some((runtime, runtime.newest()?)))
        .filter(|(_, newest)| declared > *newest);
    refusing
        .map(|(runtime, newest)| {
            let fix = if needed <= newest {
                format!("write cdiVersion {needed} in it, which is all that it needs")
            } else {
                format!("update {}, or let the spec's writer do without what needs {needed}", runtime.name)
            };
            Finding::new(
                runtime.severity(),
                "cdi-spec-too-new",
                file,
                format!(
                    "it says cdiVersion {declared}, and {} loads up to {newest}: it refuses the file",
                    runtime.shown()
                ),
                fix,
            )
        })
        .collect()
}

/// Nodes that are not the host's, once for each file and sort.
fn of_nodes(files: &Files, host: &Host, registry: &Registry, given: Given<'_>) -> Vec<Finding> {
    let mut reports = Vec::new();
    for file in registry.files() {
        let Ok(spec) = &file.spec else { continue };
        for node in nodes_of(spec) {
            let report = NodeReport::of(spec, node, host);
            if report.state.is_bad() {
                reports.push((files.shown(&file.path), report));
            }
        }
    }
    let mut findings = Vec::new();
    for (state, id) in [
        (NodeState::Stale, "cdi-spec-stale-major"),
        (NodeState::Missing, "cdi-spec-node-missing"),
        (NodeState::Differs, "cdi-spec-node-differs"),
    ] {
        let of_state = reports.iter().filter(|(_, report)| report.state == state);
        let bad = of_state.map(|(file, report)| (file.as_str(), report));
        let told = told(bad).into_iter();
        findings.extend(told.map(|(file, what, fix)| {
            let fix = fix.replace(GENERATE, &given.generate());
            let finding = Finding::error(id, file, what, fix);
            finding.naming(files, &files.at(PROC_DEVICES))
        }));
    }
    findings
}
