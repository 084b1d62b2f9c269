//! The CDI specs of a host, against its runtimes and its nodes.

mod channels;

use compute_domain_node::error_chain;
use imex_cdi::{PROC_DEVICES, Registry, Spec, SpecFile};

use super::runtimes::Runtime;
use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::Finding;
use crate::host::Host;
use crate::invocation::GENERATE;
use crate::invocation::Invocation;
use crate::node_report::{NodeReport, NodeState, group_bad_nodes};
use crate::spec_node::device_nodes;
use crate::text::counted;

pub(super) fn check(
    files: &HostFiles,
    host: &Host,
    registry: &Registry,
    runtimes: &[Runtime],
    invocation: &Invocation,
) -> AreaReport {
    let mut findings = Vec::new();
    for file in registry.files() {
        findings.extend(of_file(files, file, runtimes));
    }
    findings.extend(of_nodes(files, host, registry, invocation));
    findings.extend(channels::beyond_count(files, host, registry));
    findings.extend(registry.conflicts().map(|conflict| {
        let paths: Vec<String> = conflict
            .files
            .iter()
            .map(|it| files.host_name(&it.path))
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
    AreaReport::new(format!("{count}, {devices}"), findings)
}

fn of_file(files: &HostFiles, file: &SpecFile, runtimes: &[Runtime]) -> Vec<Finding> {
    let shown = files.host_name(&file.path);
    match &file.spec {
        Ok(spec) => too_new(&shown, spec, runtimes),
        Err(error) => {
            let (code, hint) = (error.code(), error.hint());
            let finding = Finding::error(code, shown, error_chain(error), hint).quoting();
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
fn of_nodes(
    files: &HostFiles,
    host: &Host,
    registry: &Registry,
    invocation: &Invocation,
) -> Vec<Finding> {
    let mut reports = Vec::new();
    for file in registry.files() {
        let Ok(spec) = &file.spec else { continue };
        for node in device_nodes(spec) {
            let report = NodeReport::new(spec, node, host);
            if report.state.is_bad() {
                reports.push((files.host_name(&file.path), report));
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
        let groups = group_bad_nodes(bad).into_iter();
        findings.extend(groups.map(|group| {
            let fix = group.fix.replace(GENERATE, &invocation.generate());
            let finding = Finding::error(id, group.file, group.message, fix);
            finding.naming(files, &files.at(PROC_DEVICES))
        }));
    }
    findings
}
