//! Checks for ways to get a channel without a claim, and for hosts on which a claimed channel
//! does not work.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `imex-channels-env-bypass` | warning, or info without the plugin | the toolkit honours `NVIDIA_IMEX_CHANNELS` of any container |
//! | `imex-channels-by-other-spec` | warning, with the plugin only | a CDI spec that belongs to no claim gives a channel to any container that requests its device |
//! | `toolkit-config-unreadable` | warning | the toolkit's configuration cannot be read |
//! | `systemd-drops-devices` | warning, or info without the plugin | a reload of an old systemd revokes devices |
//! | `user-namespaces-possible` | info | pods in user namespaces need the host's device nodes |
//! | `kata-present` | info | Kata Containers do not have the host's channels |

use crate::diagnosis::AreaReport;
use crate::facts::isolation::{IGNORE_REQUESTS, IsolationFacts, SUBORDINATE_IDS, Toolkit};
use crate::facts::specs::{SpecFacts, SpecFileFacts};
use crate::finding::{Finding, Severity};
use crate::spec_node::{KUBELET_PLUGINS, is_channel_node};
use crate::text::and_more;

/// From this version on, a reload keeps devices that systemd does not know.
const SYSTEMD_KEEPS_DEVICES: u32 = 240;

/// Facts of other areas that matter here.
#[derive(Clone, Copy)]
pub(super) struct Context {
    /// Whether a DRA driver's plugin is on the host.
    pub(super) has_plugin: bool,
    /// Whether the plugin that gives channels is. Without it there are no claims to bypass, and a
    /// toolkit with NVIDIA's defaults is normal.
    pub(super) gives_channels: bool,
}

pub(super) fn check(facts: &IsolationFacts, specs: &SpecFacts, context: Context) -> AreaReport {
    let severity = Severity::for_claims(context.gives_channels);
    let mut findings = Vec::new();
    let toolkit = facts.toolkit.as_ref();
    findings.extend(toolkit.and_then(|it| check_toolkit(it, severity)));
    if context.gives_channels {
        findings.extend(specs.files.iter().filter_map(channels_of));
    }
    let severity = Severity::for_claims(context.has_plugin);
    findings.extend(facts.systemd.and_then(|it| check_systemd(it, severity)));
    findings.extend(facts.kubelet_user_ids.as_deref().map(user_namespaces));
    findings.extend(facts.kata.as_deref().map(kata_containers));
    let toolkit = match toolkit {
        Some(_) => "NVIDIA toolkit",
        None => "no NVIDIA toolkit",
    };
    let systemd = facts.systemd.map(|version| format!(", systemd {version}"));
    let systemd = systemd.unwrap_or_default();
    AreaReport::new(format!("{toolkit}{systemd}"), findings)
}

/// By default, an image's `NVIDIA_IMEX_CHANNELS` grants any channel without a claim.
fn check_toolkit(toolkit: &Toolkit, severity: Severity) -> Option<Finding> {
    let path = &toolkit.path;
    match &toolkit.ignores_requests {
        Ok(Some(true)) => None,
        Ok(Some(false) | None) => Some(Finding::new(
            severity,
            "imex-channels-env-bypass",
            path,
            format!(
                "features.{IGNORE_REQUESTS} is not set: a container with NVIDIA_IMEX_CHANNELS in its environment gets channels without a claim"
            ),
            format!("nvidia-ctk config --in-place --set features.{IGNORE_REQUESTS}=true"),
        )),
        Err(reason) => Some(Finding::warning(
            "toolkit-config-unreadable",
            path,
            format!(
                "this file {reason}: doctor does not know whether a container with NVIDIA_IMEX_CHANNELS in its environment gets channels without a claim"
            ),
            format!(
                "correct the file, or run cdi-gen doctor as root; the file must contain {IGNORE_REQUESTS} = true in the [features] section"
            ),
        )),
    }
}

/// A runtime gives the devices of any spec to every container that requests them: by a pod's
/// annotation, a device plugin, or the command line.
fn channels_of(file: &SpecFileFacts) -> Option<Finding> {
    let spec = file.spec.as_ref().ok().filter(|_| !file.is_shadowed)?;
    // Specs of kubelet's plugins belong to claims.
    if spec.kind().vendor().starts_with(KUBELET_PLUGINS) {
        return None;
    }
    let mut devices = spec.devices().iter().filter_map(|device| {
        let nodes = device.container_edits.device_nodes.iter();
        let mut nodes = nodes.chain(&spec.container_edits().device_nodes);
        let channel = nodes.find(|node| is_channel_node(node))?;
        Some((device.name.as_str(), channel.path.as_str()))
    });
    let (device, path) = devices.next()?;
    let more = and_more(devices.count());
    let kind = spec.kind();
    Some(Finding::warning(
        "imex-channels-by-other-spec",
        &file.path,
        format!(
            "the device {kind}={device} of this spec includes {path}{more}: every container that requests this device gets the channel without a claim"
        ),
        format!(
            "remove {}; if a program writes this spec, configure the program to leave out IMEX channels: each claim has its own spec",
            file.path
        ),
    ))
}

/// On a reload, an old systemd reapplies its own device rules and removes those that the runtime
/// added.
fn check_systemd(version: u32, severity: Severity) -> Option<Finding> {
    (version < SYSTEMD_KEEPS_DEVICES).then(|| {
        Finding::new(
            severity,
            "systemd-drops-devices",
            format!("systemd {version}"),
            "before version 240, `systemctl daemon-reload` revokes devices that a runtime gave to running containers",
            "update systemd, or use the cgroupfs driver in kubelet and runtime",
        )
    })
}

/// kubelet only starts pods with `hostUsers: false` if it has a range of ids.
fn user_namespaces(range: &str) -> Finding {
    Finding::info(
        "user-namespaces-possible",
        SUBORDINATE_IDS,
        format!(
            "{range}: in pods with hostUsers: false, runc bind-mounts device nodes from the host, and the host may have no device nodes for IMEX channels"
        ),
        "for such pods, create the channels' device nodes on the host (mknod with the major of nvidia-caps-imex-channels in /proc/devices), or do not use ComputeDomain claims in such pods",
    )
}

/// An info, because the host may also run other containers.
fn kata_containers(path: &str) -> Finding {
    Finding::info(
        "kata-present",
        path,
        "Kata resolves CDI device names in the virtual machine, where the host's channels do not exist",
        "do not use ComputeDomain claims in pods with a Kata RuntimeClass",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PLUGIN: Context = Context {
        has_plugin: false,
        gives_channels: false,
    };
    const GPUS: Context = Context {
        has_plugin: true,
        gives_channels: false,
    };
    const CHANNELS: Context = Context {
        has_plugin: true,
        gives_channels: true,
    };

    #[test]
    fn a_toolkit_bypasses_claims_by_default() {
        let ids = |ignores_requests| {
            let facts = IsolationFacts {
                toolkit: Some(Toolkit {
                    path: "/etc/nvidia-container-runtime/config.toml".to_owned(),
                    ignores_requests,
                }),
                ..IsolationFacts::default()
            };
            let findings = check(&facts, &SpecFacts::default(), CHANNELS).findings;
            findings.iter().map(|it| it.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(Ok(Some(true))), [""; 0]);
        assert_eq!(ids(Ok(Some(false))), ["imex-channels-env-bypass"]);
        assert_eq!(ids(Ok(None)), ["imex-channels-env-bypass"]);
        let unknown = ids(Err("is not valid TOML".to_owned()));
        assert_eq!(unknown, ["toolkit-config-unreadable"]);
    }

    #[test]
    fn a_spec_that_gives_channels_without_a_claim_is_reported_with_device_and_channel() {
        let spec = |kind: &str, path: &str| {
            let spec = serde_json::json!({
                "cdiVersion": "0.5.0",
                "kind": kind,
                "devices": [{ "name": "one", "containerEdits": {
                    "deviceNodes": [{ "path": path, "type": "c", "major": 235, "minor": 7 }],
                } }],
            });
            let spec = imex_cdi::Spec::parse(spec.to_string().as_bytes()).unwrap();
            SpecFacts {
                files: vec![SpecFileFacts {
                    path: "/etc/cdi/a.yaml".to_owned(),
                    spec: Ok(std::sync::Arc::new(spec)),
                    nodes: vec![],
                    is_shadowed: false,
                    missing_paths: vec![],
                }],
                ..SpecFacts::default()
            }
        };
        let channel = "/dev/nvidia-caps-imex-channels/channel7";
        let own = spec("nvidia.com/imex-channel", channel);
        let facts = IsolationFacts::default();
        let findings = check(&facts, &own, CHANNELS).findings;
        let [found] = findings.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(
            (found.id, found.subject.as_str(), found.severity),
            (
                "imex-channels-by-other-spec",
                "/etc/cdi/a.yaml",
                Severity::Warning
            )
        );
        let device = format!("nvidia.com/imex-channel=one of this spec includes {channel}:");
        assert!(found.evidence.contains(&device), "{}", found.evidence);
        // No finding without claims, for a claim's own spec, and for other devices.
        let of_claim = spec("k8s.compute-domain.nvidia.com/claim", channel);
        for (specs, context) in [
            (own.clone(), NO_PLUGIN),
            (own, GPUS),
            (of_claim, CHANNELS),
            (spec("nvidia.com/gpu", "/dev/nvidia0"), CHANNELS),
        ] {
            assert_eq!(check(&facts, &specs, context).findings, []);
        }
    }

    #[test]
    fn an_old_systemd_drops_devices() {
        let of = |systemd| {
            let facts = IsolationFacts {
                systemd: Some(systemd),
                ..IsolationFacts::default()
            };
            let specs = SpecFacts::default();
            let without_plugin = check(&facts, &specs, NO_PLUGIN).worst();
            assert_ne!(without_plugin, Some(Severity::Warning));
            let of_gpus = check(&facts, &specs, GPUS);
            assert_eq!(of_gpus.findings, check(&facts, &specs, CHANNELS).findings);
            of_gpus
        };
        assert_eq!(of(239).findings.len(), 1);
        assert_eq!(of(240).findings.len(), 0);
        assert_eq!(of(252).summary, "no NVIDIA toolkit, systemd 252");
    }
}
