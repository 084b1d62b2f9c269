//! Whether runtimes load the CDI specs, and containers get the device nodes in
//! them.
//!
//! | id | severity | when |
//! |---|---|---|
//! | codes of `imex_cdi::LoadError` | error | the file has no valid spec |
//! | `cdi-spec-too-long` of them | warning | it was not read: runtimes do, each time they look for devices |
//! | `cdi-spec-too-new` | error, or info | it declares a version that an installed runtime does not load |
//! | `cdi-spec-stale-major` | error, info if shadowed | a channel's major is not the driver's any more |
//! | `cdi-spec-node-missing` | error, info if shadowed | the host does not have a device node that the spec takes from it |
//! | `cdi-spec-node-differs` | error, info if shadowed | the host has another device at the path |
//! | `cdi-spec-channel-beyond-count` | error | a channel's number is not below the driver's count |
//! | `cdi-device-conflict` | error | two files of one directory define a device |

use std::collections::BTreeSet;

use imex_cdi::{DRIVER_PARAMS, Spec};

use super::runtimes::severity;
use crate::area::AreaReport;
use crate::facts::runtimes::model::Runtime;
use crate::facts::specs::{DeviceConflict, SpecFacts, SpecFileFacts};
use crate::finding::{Finding, Severity};
use crate::invocation::{GENERATE, Invocation};
use crate::node_report::{NodeReport, NodeState, group_bad_nodes};
use crate::runtime_release::RuntimeRelease;
use crate::spec_node::is_claim_spec;
use crate::text::{and_more, counted};

/// The code of `imex_cdi::LoadError::TooLong`.
const TOO_LONG: &str = "cdi-spec-too-long";

/// How the driver makes more channels.
const MORE_CHANNELS: &str = "NVreg_ImexChannelCount in /etc/modprobe.d, then load it again";

/// `channel_count` is the driver's, if it is known.
pub(super) fn check(
    facts: &SpecFacts,
    runtimes: &[Runtime],
    channel_count: Option<u32>,
    invocation: &Invocation,
) -> AreaReport {
    let mut findings = Vec::new();
    for file in &facts.files {
        findings.extend(check_file(file, runtimes));
    }
    findings.extend(check_nodes(&facts.files, invocation));
    // A driver that is configured to have no channels is a finding of its own.
    if let Some(count) = channel_count.filter(|count| *count > 0) {
        let files = facts.files.iter().filter(|file| !file.is_shadowed);
        findings.extend(files.filter_map(|file| check_channels(file, count)));
    }
    findings.extend(facts.conflicts.iter().map(conflict));
    let files = counted(facts.files.len(), "file");
    let devices = counted(facts.resolved_devices, "resolved device");
    AreaReport::new(format!("{files}, {devices}"), findings)
}

/// A runtime that refuses a file goes on without its devices.
fn check_file(file: &SpecFileFacts, runtimes: &[Runtime]) -> Vec<Finding> {
    let path = &file.path;
    match &file.spec {
        Ok(spec) => check_version(path, spec, runtimes),
        Err(error) => {
            let severity = match error.code {
                TOO_LONG => Severity::Warning,
                _ => Severity::Error,
            };
            let invalid = Finding::new(severity, error.code, path, &error.message, &error.hint);
            vec![invalid.quoting()]
        }
    }
}

/// A version that a runtime does not know makes it refuse the whole file.
fn check_version(file: &str, spec: &Spec, runtimes: &[Runtime]) -> Vec<Finding> {
    let (declared, needed) = (spec.version(), spec.needed_version());
    let releases = runtimes.iter();
    let releases = releases.filter_map(|runtime| Some((runtime, release(runtime)?.newest())));
    let refusing = releases.filter(|(_, newest)| declared > *newest);
    refusing
        .map(|(runtime, newest)| {
            let fix = if needed <= newest {
                format!("write cdiVersion {needed} in it, which is all that it needs")
            } else {
                let name = runtime.kind.as_str();
                format!("update {name}, or let the spec's writer do without what needs {needed}")
            };
            Finding::new(
                severity(runtime),
                "cdi-spec-too-new",
                file,
                format!(
                    "it declares cdiVersion {declared}, and {} loads up to {newest}: it refuses the file",
                    runtime.label()
                ),
                fix,
            )
        })
        .collect()
}

/// `None` of a release that is not in the table of CDI versions.
fn release(runtime: &Runtime) -> Option<RuntimeRelease> {
    let version = runtime.version.as_deref()?;
    let release = format!("{}-{version}", runtime.kind.as_str());
    release.parse().ok()
}

/// Device nodes that are not the host's, once for each file, state and fix.
fn check_nodes(files: &[SpecFileFacts], invocation: &Invocation) -> Vec<Finding> {
    let reports = files.iter().flat_map(|file| {
        let nodes = file.nodes.iter();
        nodes.map(|node| (file.path.as_str(), node))
    });
    let reports: Vec<(&str, &NodeReport)> = reports.collect();
    let shadowed = files.iter().filter(|file| file.is_shadowed);
    let shadowed: BTreeSet<&str> = shadowed.map(|file| file.path.as_str()).collect();
    let mut findings = Vec::new();
    for (state, id) in [
        (NodeState::Stale, "cdi-spec-stale-major"),
        (NodeState::Missing, "cdi-spec-node-missing"),
        (NodeState::Differs, "cdi-spec-node-differs"),
    ] {
        let bad = reports.iter().filter(|(_, report)| report.state == state);
        let groups = group_bad_nodes(bad.copied()).into_iter();
        findings.extend(groups.map(|group| {
            let fix = group.fix.replace(GENERATE, &invocation.generate());
            let is_shadowed = shadowed.contains(group.file);
            let severity = if is_shadowed {
                Severity::Info
            } else {
                Severity::Error
            };
            let mut message = group.message;
            if is_shadowed {
                message.push_str("; no container gets it: files of higher priority define all devices of this one");
            }
            Finding::new(severity, id, group.file, message, fix)
        }));
    }
    findings
}

/// Channels with a number that is not below the driver's count: the kernel makes
/// the device node, and the driver refuses to open it.
fn check_channels(file: &SpecFileFacts, count: u32) -> Option<Finding> {
    let spec = file.spec.as_ref().ok()?;
    let channels = file.nodes.iter();
    let channels = channels.filter_map(|node| Some((node, node.channel?)));
    let mut beyond = channels.filter(|(_, channel)| *channel >= i64::from(count));
    let (node, channel) = beyond.next()?;
    let more = and_more(beyond.count());
    let fix = if is_claim_spec(spec) {
        // A domain keeps its number as long as it lives.
        format!(
            "have the driver make more channels ({MORE_CHANNELS}), or lower the chart's \
             imex.channelCount to {count} and create the claim's ComputeDomain again"
        )
    } else {
        format!(
            "leave such channels out of the spec, or have the driver make more ({MORE_CHANNELS})"
        )
    };
    Some(Finding::error(
        "cdi-spec-channel-beyond-count",
        &file.path,
        format!(
            "{} is channel {channel}{more}, and the driver's ImexChannelCount is {count} ({DRIVER_PARAMS}): nobody can open it",
            node.path
        ),
        fix,
    ))
}

/// Runtimes resolve neither of two devices with one name and priority.
fn conflict(conflict: &DeviceConflict) -> Finding {
    let files = conflict.files.join(" and ");
    Finding::error(
        conflict.error.code,
        &conflict.name,
        format!("{files} define it, so that it resolves nowhere"),
        &conflict.error.hint,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::error_facts::ErrorFacts;
    use crate::facts::ContainerdFacts;
    use crate::facts::runtimes::model::{CdiSupport, RuntimeKind};

    use super::*;

    fn file(version: &str, nodes: Vec<NodeReport>) -> SpecFileFacts {
        let spec = json!({
            "cdiVersion": version,
            "kind": "example.com/thing",
            "devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}],
        });
        let spec = Spec::parse(spec.to_string().as_bytes()).unwrap();
        SpecFileFacts {
            path: "/etc/cdi/a.json".to_owned(),
            spec: Ok(Arc::new(spec)),
            nodes,
            is_shadowed: false,
        }
    }

    fn node(state: NodeState, channel: Option<i64>) -> NodeReport {
        NodeReport {
            path: "/dev/x".to_owned(),
            host_path: "/dev/x".to_owned(),
            declared: None,
            found: None,
            channel,
            state,
            message: state.is_bad().then(|| "it is bad".to_owned()),
            fix: state.is_bad().then_some("write it with `cdi-gen generate`"),
        }
    }

    fn containerd(version: &str) -> Runtime {
        Runtime {
            kind: RuntimeKind::Containerd,
            version: Some(version.to_owned()),
            cdi: CdiSupport::On,
            spec_dirs: None,
            config: None,
            config_error: None,
            runs_pods: true,
            containerd: ContainerdFacts::default(),
        }
    }

    fn findings(facts: &SpecFacts, runtimes: &[Runtime]) -> Vec<Finding> {
        check(facts, runtimes, Some(4), &Invocation::default()).findings
    }

    fn facts(file: SpecFileFacts) -> SpecFacts {
        SpecFacts {
            files: vec![file],
            ..SpecFacts::default()
        }
    }

    #[test]
    fn a_version_that_the_runtime_does_not_load_is_an_error() {
        let runtimes = [containerd("1.7.0")];
        let found = findings(&facts(file("0.6.0", vec![])), &runtimes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "cdi-spec-too-new");
        assert!(
            found[0].fix.starts_with("write cdiVersion 0.3.0"),
            "{}",
            found[0].fix
        );
        assert_eq!(findings(&facts(file("0.5.0", vec![])), &runtimes), []);
    }

    #[test]
    fn nodes_with_one_fix_are_one_finding_with_the_command_of_this_run() {
        let nodes = [NodeState::Stale, NodeState::Agrees, NodeState::Stale];
        let nodes = nodes.map(|state| node(state, None)).to_vec();
        let facts = facts(file("0.5.0", nodes));
        let invocation = Invocation::new("/host", crate::options::Options::default());
        let found = check(&facts, &[], None, &invocation).findings;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, "cdi-spec-stale-major");
        assert_eq!(found[0].evidence, "it is bad (and 1 more like it)");
        assert_eq!(
            found[0].fix,
            "write it with `cdi-gen generate --root /host`"
        );
    }

    #[test]
    fn a_channel_is_below_the_drivers_count() {
        let channels = [3, 4, 5].map(|channel| node(NodeState::Agrees, Some(channel)));
        let found = findings(&facts(file("0.5.0", channels.to_vec())), &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .evidence
                .starts_with("/dev/x is channel 4 (and 1 more")
        );
    }

    #[test]
    fn an_invalid_file_may_be_quoted_only_to_people_on_the_host() {
        let mut invalid = file("0.5.0", vec![]);
        invalid.spec = Err(ErrorFacts {
            code: "cdi-syntax",
            message: "secret".to_owned(),
            hint: "correct it".to_owned(),
        });
        let found = findings(&facts(invalid), &[]);
        assert_eq!(found[0].id, "cdi-syntax");
        assert!(!found[0].redacted().evidence.contains("secret"));
    }
}
