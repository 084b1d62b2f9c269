//! What undermines claims: ways to get a channel without one, and hosts on which
//! a claimed channel does not work.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `imex-channels-env-bypass` | warning, or info without the plugin | the toolkit honours `NVIDIA_IMEX_CHANNELS` of any container |
//! | `toolkit-config-unreadable` | warning | the toolkit's configuration cannot be read |
//! | `systemd-drops-devices` | warning, or info without the plugin | a reload of an old systemd takes devices away |
//! | `user-namespaces-possible` | info | pods in user namespaces need the host's device nodes |
//! | `kata-present` | info | Kata Containers do not have the host's channels |

use crate::area::AreaReport;
use crate::facts::isolation::{IGNORE_REQUESTS, IsolationFacts, SUBORDINATE_IDS, Toolkit};
use crate::finding::{Finding, Severity};

/// From this version on, a reload keeps devices that systemd does not know.
const SYSTEMD_KEEPS_DEVICES: u32 = 240;

/// Without the kubelet plugin (`has_plugin`) there are no claims to go around, and a
/// toolkit with NVIDIA's defaults is as its maker ships it.
pub(super) fn check(facts: &IsolationFacts, has_plugin: bool) -> AreaReport {
    let severity = Severity::for_claims(has_plugin);
    let IsolationFacts {
        toolkit,
        systemd,
        kubelet_user_ids,
        kata,
    } = facts;
    let mut findings = Vec::new();
    findings.extend(toolkit.as_ref().and_then(|it| check_toolkit(it, severity)));
    findings.extend(systemd.and_then(|it| check_systemd(it, severity)));
    findings.extend(kubelet_user_ids.as_deref().map(user_namespaces));
    findings.extend(kata.as_deref().map(kata_containers));
    let toolkit = match toolkit {
        Some(_) => "NVIDIA toolkit",
        None => "no NVIDIA toolkit",
    };
    let systemd = systemd.map_or_else(String::new, |version| format!(", systemd {version}"));
    AreaReport::new(format!("{toolkit}{systemd}"), findings)
}

/// By default an image's `NVIDIA_IMEX_CHANNELS` grants any channel, without a
/// claim.
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
                "it {reason}: whether a container with NVIDIA_IMEX_CHANNELS in its environment gets channels without a claim is not known"
            ),
            format!(
                "correct the file, or run this as root; it must contain {IGNORE_REQUESTS} = true below [features]"
            ),
        )),
    }
}

/// An old systemd applies its own device rules again on a reload, and removes
/// those that the runtime added.
fn check_systemd(version: u32, severity: Severity) -> Option<Finding> {
    (version < SYSTEMD_KEEPS_DEVICES).then(|| {
        Finding::new(
            severity,
            "systemd-drops-devices",
            format!("systemd {version}"),
            "before 240, `systemctl daemon-reload` takes away devices that a runtime gave to running containers",
            "update systemd, or use the cgroupfs driver of kubelet and runtime",
        )
    })
}

/// kubelet only starts pods with `hostUsers: false` if it has a range of ids.
fn user_namespaces(range: &str) -> Finding {
    Finding::info(
        "user-namespaces-possible",
        SUBORDINATE_IDS,
        format!(
            "{range}: in pods with hostUsers: false, runc binds device nodes from the host, where IMEX channels need not exist"
        ),
        "make the channels' nodes on the host for such pods (mknod with the major of nvidia-caps-imex-channels in /proc/devices), or do not use claims in them",
    )
}

/// The host may also run other containers, so that this is an info.
fn kata_containers(path: &str) -> Finding {
    Finding::info(
        "kata-present",
        path,
        "in Kata containers CDI is resolved in the guest, where the host's channels do not exist",
        "do not use ComputeDomain claims in pods with a Kata RuntimeClass",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_bypasses_claims_unless_it_is_configured_not_to() {
        let ids = |ignores_requests| {
            let facts = IsolationFacts {
                toolkit: Some(Toolkit {
                    path: "/etc/nvidia-container-runtime/config.toml".to_owned(),
                    ignores_requests,
                }),
                ..IsolationFacts::default()
            };
            let findings = check(&facts, true).findings;
            findings.iter().map(|it| it.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(Ok(Some(true))), [""; 0]);
        assert_eq!(ids(Ok(Some(false))), ["imex-channels-env-bypass"]);
        assert_eq!(ids(Ok(None)), ["imex-channels-env-bypass"]);
        let unknown = ids(Err("is not valid TOML".to_owned()));
        assert_eq!(unknown, ["toolkit-config-unreadable"]);
    }

    #[test]
    fn an_old_systemd_drops_devices() {
        let of = |systemd| {
            let facts = IsolationFacts {
                systemd: Some(systemd),
                ..IsolationFacts::default()
            };
            assert_ne!(check(&facts, false).worst(), Some(Severity::Warning));
            check(&facts, true)
        };
        assert_eq!(of(239).findings.len(), 1);
        assert_eq!(of(240).findings.len(), 0);
        assert_eq!(of(252).summary, "no NVIDIA toolkit, systemd 252");
    }
}
