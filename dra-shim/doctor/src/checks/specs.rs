//! Checks that runtimes load the CDI specs, and that containers get their device nodes.
//!
//! | id | severity | when |
//! |---|---|---|
//! | codes of `imex_cdi::LoadError` | error | the file has no valid spec |
//! | `cdi-spec-too-long` of them | warning | it was not read; runtimes read it each time they look for devices |
//! | `cdi-spec-too-new` | error, or info | it declares a version that kubelet's runtime does not load |
//! | `cdi-kind-one-letter` | error | its kind crashes every runtime that loads it; a warning if no runtime is known here |
//! | `cdi-spec-path-missing` | error | a mount source or a hook's program does not exist on the host |
//! | `cdi-spec-stale-major` | error, info if shadowed | a channel's major is no longer the driver's |
//! | `cdi-spec-node-missing` | error, info if shadowed | the host lacks a device node that the spec takes from it |
//! | `cdi-spec-node-differs` | error, info if shadowed | the host has another device at the path |
//! | `cdi-spec-channel-beyond-count` | error | a channel's number is not below the driver's count |
//! | `cdi-device-conflict` | error | two files of one directory define the same device |

use std::collections::BTreeSet;

use imex_cdi::{DRIVER_PARAMS, Spec};

use crate::diagnosis::AreaReport;
use crate::facts::runtimes::RuntimeFacts;
use crate::facts::runtimes::model::{KubeletRuntime, Runtime, Settings};
use crate::facts::specs::{DeviceConflict, SpecFacts, SpecFileFacts};
use crate::finding::{Finding, Severity};
use crate::node_report::{NodeReport, NodeState, group_bad_nodes};
use crate::options::{GENERATE, Invocation};
use crate::runtime_release::RuntimeRelease;
use crate::spec_node::{OneLetterKind, is_claim_spec};
use crate::spec_paths::rewrite_fix;
use crate::text::{and_more, counted};

/// The code of `imex_cdi::LoadError::TooLong`.
const TOO_LONG: &str = "cdi-spec-too-long";

/// How to get more channels from the driver.
const MORE_CHANNELS: &str = "set NVreg_ImexChannelCount in /etc/modprobe.d and reload the driver";

/// Facts of other areas that matter here.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) runtimes: &'a RuntimeFacts,
    /// The driver's count of channels, if known.
    pub(super) channel_count: Option<u32>,
    /// The loaded driver's version, if known.
    pub(super) driver_version: Option<&'a str>,
}

pub(super) fn check(
    facts: &SpecFacts,
    context: Context<'_>,
    invocation: &Invocation,
) -> AreaReport {
    let mut findings = Vec::new();
    for file in &facts.files {
        findings.extend(check_file(file, context));
        findings.extend(check_paths(file, context.driver_version));
    }
    findings.extend(check_nodes(&facts.files, invocation));
    // A driver without channels has a finding of its own.
    if let Some(count) = context.channel_count.filter(|count| *count > 0) {
        let files = facts.files.iter().filter(|file| !file.is_shadowed);
        findings.extend(files.filter_map(|file| check_channels(file, count)));
    }
    findings.extend(facts.conflicts.iter().map(conflict));
    let files = counted(facts.files.len(), "file");
    let devices = counted(facts.resolved_devices, "resolved device");
    AreaReport::new(format!("{files}, {devices}"), findings)
}

/// A runtime that refuses a file continues without its devices.
fn check_file(file: &SpecFileFacts, context: Context<'_>) -> Vec<Finding> {
    let path = &file.path;
    match &file.spec {
        Ok(spec) => {
            let version = check_version(file, spec, context);
            let kind = check_kind(path, spec, context.runtimes);
            version.into_iter().chain(kind).collect()
        }
        Err(error) => {
            let severity = match error.code {
                TOO_LONG => Severity::Warning,
                _ => Severity::Error,
            };
            vec![Finding::of(severity, path, error).quoting()]
        }
    }
}

/// A runtime refuses the whole file if it does not know the version.
fn check_version(file: &SpecFileFacts, spec: &Spec, context: Context<'_>) -> Option<Finding> {
    let of_kubelet = context.runtimes.of_kubelet.as_ref()?;
    let (declared, needed) = (spec.version(), spec.needed_version());
    let newest = release(&of_kubelet.runtime)?.newest();
    if declared <= newest {
        return None;
    }
    let fix = if needed <= newest {
        format!("set cdiVersion to {needed} in this file: the content needs no newer version")
    } else {
        let name = of_kubelet.runtime.kind.as_str();
        format!(
            "update {name}, or configure the program that writes this spec to leave out the fields that need cdiVersion {needed}"
        )
    };
    // A runtime without CDI refuses nothing.
    let severity = if loads(of_kubelet) {
        Severity::Error
    } else {
        Severity::Info
    };
    Some(Finding::new(
        severity,
        "cdi-spec-too-new",
        &file.path,
        format!(
            "this file declares cdiVersion {declared}, but {} loads at most {newest} and refuses the file",
            of_kubelet.runtime.label()
        ),
        fix,
    ))
}

/// `None` for a release that is not in the table of CDI versions.
fn release(runtime: &Runtime) -> Option<RuntimeRelease> {
    let version = runtime.version.as_deref()?;
    let release = format!("{}-{version}", runtime.kind.as_str());
    release.parse().ok()
}

/// Whether it reads specs, as far as known.
fn loads(of_kubelet: &KubeletRuntime) -> bool {
    match of_kubelet.cdi() {
        Some(settings) => !settings.has_no_cdi(),
        None => !matches!(of_kubelet.settings, Settings::WithoutCri(_)),
    }
}

/// Every runtime that looks for devices loads every file, even if no container requests its
/// devices.
fn check_kind(file: &str, spec: &Spec, runtimes: &RuntimeFacts) -> Option<Finding> {
    let one_letter = OneLetterKind::of(spec.kind())?;
    let of_kubelet = runtimes.of_kubelet.iter().filter(|it| loads(it));
    let loading = of_kubelet.map(|it| &it.runtime).chain(&runtimes.others);
    let labels: Vec<String> = loading.map(Runtime::label).collect();
    let (severity, who) = match labels.as_slice() {
        [] => (Severity::Warning, "a runtime".to_owned()),
        _ => (Severity::Error, labels.join(", ")),
    };
    // As in `OneLetterKind::CODE`.
    let id = "cdi-kind-one-letter";
    let message = one_letter.message(&who);
    Some(Finding::new(
        severity,
        id,
        file,
        message,
        OneLetterKind::FIX,
    ))
}

/// Device nodes that do not match the host's, once for each file, state and fix.
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
                message.push_str("; no container uses this file: files of higher priority define all of its devices");
            }
            Finding::new(severity, id, group.file, message, fix)
        }));
    }
    findings
}

/// Channels with a number that is not below the driver's count: the kernel creates the
/// device node, but the driver refuses to open it.
fn check_channels(file: &SpecFileFacts, count: u32) -> Option<Finding> {
    let spec = file.spec.as_ref().ok()?;
    let channels = file.nodes.iter();
    let channels = channels.filter_map(|node| Some((node, node.channel?)));
    let mut beyond = channels.filter(|(_, channel)| *channel >= i64::from(count));
    let (node, channel) = beyond.next()?;
    let more = and_more(beyond.count());
    let fix = if is_claim_spec(spec) {
        // A domain keeps its channel number until it is deleted.
        format!(
            "configure more channels in the driver ({MORE_CHANNELS}), or lower the chart's \
             imex.channelCount to {count} and recreate the claim's ComputeDomain"
        )
    } else {
        format!(
            "remove these channels from the spec, or configure more channels in the driver ({MORE_CHANNELS})"
        )
    };
    Some(Finding::error(
        "cdi-spec-channel-beyond-count",
        &file.path,
        format!(
            "{} is channel {channel}{more}, but the driver's ImexChannelCount is {count} ({DRIVER_PARAMS}): no process can open this channel",
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
        format!("{files} define the same device, so runtimes do not resolve its name"),
        &conflict.error.hint,
    )
}

/// Mount sources and hook programs that the host does not have, as one finding per file: a driver
/// update removes all libraries of the old driver.
fn check_paths(file: &SpecFileFacts, driver_version: Option<&str>) -> Option<Finding> {
    let (first, others) = file.missing_paths.split_first()?;
    let spec = file.spec.as_ref().ok()?;
    let old = file.missing_paths.iter().find_map(|it| {
        let old = library_version(&it.path)?;
        let loaded = driver_version?;
        (old != loaded).then(|| format!("; the spec is for driver {old}, but {loaded} is loaded"))
    });
    Some(Finding::error(
        "cdi-spec-path-missing",
        &file.path,
        format!(
            "{}{}: no container with a device of this spec can be created{}",
            first.message(),
            and_more(others.len()),
            old.unwrap_or_default()
        ),
        rewrite_fix(spec, &file.path, &file.missing_paths),
    ))
}

/// `570.172.08` of `libcuda.so.570.172.08`.
fn library_version(path: &str) -> Option<&str> {
    let (_, version) = path.rsplit_once(".so.")?;
    let is_number = |part: &str| part.len() > 1 && part.bytes().all(|it| it.is_ascii_digit());
    // The driver's version, not the library's own as in `libnvidia-egl-gbm.so.1.1.2`.
    let is_drivers = version.contains('.') && version.split('.').all(is_number);
    is_drivers.then_some(version)
}

#[cfg(test)]
mod tests;
