//! Checks that one IMEX daemon, `nvidia-imex`, is running, configured and ready.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `host-imex-two-daemons` | error | two daemons compete for the driver's only session |
//! | `host-imex-no-nodes` | error | its node list is empty or does not exist |
//! | `host-imex-config-unreadable` | warning | its node list cannot be determined |
//! | `host-imex-own-address-missing` | error, or warning while it runs | its node list has only addresses of other hosts, names looked up in `/etc/hosts` |
//! | `host-imex-not-running` | error | its service is enabled, or the kubelet plugin leaves IMEX to the host, but no process is running |
//! | `host-imex-unseen` | info | its service is enabled, or the plugin leaves IMEX to the host, but not all processes of the host are visible |
//! | `host-imex-off` | info | it is installed, but nothing starts it, as on hosts for daemons in pods |
//! | `host-imex-absent` | error if the plugin leaves IMEX to the host, else warning or info | it is not installed, on a node that is or may be in a fabric |
//! | codes of `nvml_clique::HostImexError` | error | it does not answer `READY` through the command socket |

mod process;

use nvml_clique::Fabric;

use self::process::DaemonNeed;
use crate::diagnosis::AreaReport;
use crate::facts::imex::ImexFacts;
use crate::facts::imex::config::{ConfigSource, ImexConfig, NodeList};
use crate::facts::imex::daemons::{ImexDaemon, PROGRAM};
use crate::facts::imex::unit::UnitStart;
use crate::finding::{Finding, Severity};

/// A node that is in no multi-node fabric needs no daemon. `fabric` is `None` if
/// NVML was not queried.
pub(super) fn check(
    facts: &ImexFacts,
    module_is_loaded: bool,
    fabric: Option<&Fabric>,
) -> AreaReport {
    let need = DaemonNeed::new(module_is_loaded, fabric);
    let runs = !facts.daemons.is_empty();
    let mut findings = Vec::new();
    findings.extend(check_sessions(&facts.daemons));
    // Without nodes the daemon exits at once: the cause comes first.
    let configs = facts.configs.iter();
    findings.extend(configs.filter_map(|it| check_config(it, runs)));
    findings.extend(process::check(facts, need));
    // A vendor's image enables the service on all hosts, also without a fabric.
    if !runs && matches!(fabric, Some(Fabric::NoClique(_))) {
        for finding in &mut findings {
            finding.severity = Severity::Info;
        }
    }
    let mut summary = summary(facts).to_owned();
    if let Some(socket) = &facts.socket {
        match &socket.ready {
            Ok(()) => summary.push_str(", READY"),
            Err(error) => findings.push(Finding::of(Severity::Error, &socket.path, error)),
        }
    }
    AreaReport::new(summary, findings)
}

fn summary(facts: &ImexFacts) -> &'static str {
    let start = facts.unit.as_ref().map(|unit| unit.start);
    match (start, facts.daemons.as_slice()) {
        (Some(UnitStart::Enabled), []) if facts.is_incomplete => {
            "enabled, but processes are not visible"
        }
        (_, [only]) if only.is_in_container() => "running in a container",
        (_, [_, ..]) => "running",
        (Some(UnitStart::Enabled), []) => "enabled, not running",
        (Some(UnitStart::Disabled), []) => "installed, disabled",
        (Some(UnitStart::Masked), []) => "installed, masked",
        (None, []) if facts.program.is_some() => "installed, without a service",
        (None, []) => "none",
    }
}

/// A driver has one session for a daemon: the second gets `NV_ERR_IN_USE`.
fn check_sessions(daemons: &[ImexDaemon]) -> Option<Finding> {
    let daemons: Vec<&ImexDaemon> = daemons.iter().filter(|it| it.uses_driver).collect();
    let [_, _, ..] = daemons.as_slice() else {
        return None;
    };
    let inside = daemons.iter().filter(|it| it.is_in_container()).count();
    let fix = if inside == 0 || inside == daemons.len() {
        "keep one of these daemons, and disable the services or pods that start the others"
    } else {
        "keep one of these daemons. If the host manages IMEX, keep the host's daemon. The other daemon belongs to a DRA driver, such as NVIDIA's in driverManaged mode: install that driver with resources.computeDomains.enabled=false or imex.mode=hostManaged. If the host does not manage IMEX: systemctl disable --now nvidia-imex"
    };
    let labels: Vec<String> = daemons.iter().map(|it| label(it)).collect();
    Some(Finding::error(
        "host-imex-two-daemons",
        PROGRAM,
        format!(
            "{} are running: the NVIDIA driver has only one IMEX session and refuses a second daemon (NV_ERR_IN_USE)",
            labels.join(", ")
        ),
        fix,
    ))
}

fn label(daemon: &ImexDaemon) -> String {
    let cgroup = daemon.cgroup.as_deref().unwrap_or("unreadable");
    format!("process {} (cgroup {cgroup})", daemon.pid)
}

/// Reports missing nodes only if the configuration was read.
fn check_config(config: &ImexConfig, runs: bool) -> Option<Finding> {
    match config {
        ImexConfig::Unknown {
            subject,
            reason,
            quotes,
        } => Some(Finding {
            quotes: *quotes,
            ..unreadable(subject, reason)
        }),
        ImexConfig::Known { source, nodes } => check_nodes(source, nodes, runs),
    }
}

fn check_nodes(source: &ConfigSource, nodes: &NodeList, runs: bool) -> Option<Finding> {
    let (path, reason) = match nodes {
        NodeList::Present => return None,
        NodeList::WithoutHost(path) => return Some(own_address_missing(source, path, runs)),
        NodeList::Unreadable { path, reason } => {
            let evidence = format!("the file cannot be read: {reason} ({})", describe(source));
            return Some(unreadable(path, &evidence));
        }
        NodeList::Empty(path) => (path, "the file lists no nodes"),
        NodeList::Absent(path) => (path, "the file does not exist"),
    };
    Some(Finding::error(
        "host-imex-no-nodes",
        path,
        format!(
            "{reason}, so nvidia-imex has no domain ({})",
            describe(source)
        ),
        format!(
            "write the addresses of the domain's nodes into {path}, one per line, and restart nvidia-imex"
        ),
    ))
}

/// The daemon exits if no entry of the list is an address of its host. A running daemon has
/// started with an earlier list.
fn own_address_missing(source: &ConfigSource, path: &str, runs: bool) -> Finding {
    let (severity, then) = if runs {
        (
            Severity::Warning,
            "nvidia-imex cannot restart with this list",
        )
    } else {
        (Severity::Error, "nvidia-imex cannot start")
    };
    Finding::new(
        severity,
        "host-imex-own-address-missing",
        path,
        format!(
            "no entry is an address of this node, so {then} (host names are looked up in /etc/hosts; {})",
            describe(source)
        ),
        format!(
            "add this node's address to {path}, at the same line number on all nodes of the domain, and restart nvidia-imex"
        ),
    )
}

/// Without the list, it is unknown whether the daemon has a domain.
fn unreadable(subject: &str, evidence: &str) -> Finding {
    Finding::warning(
        "host-imex-config-unreadable",
        subject,
        format!("{evidence}; the nodes of nvidia-imex are unknown"),
        "run cdi-gen doctor as root on the host; if the file does not exist, restore the file, or start nvidia-imex with the correct path in -c",
    )
}

/// The file and where its path comes from, for evidence.
fn describe(source: &ConfigSource) -> String {
    let ConfigSource {
        path,
        named_by,
        seen_by,
    } = source;
    let named = match named_by {
        Some(by) => format!("configuration {path}, from {by}"),
        None => format!("configuration {path}, the default"),
    };
    match seen_by {
        Some(pid) => format!("{named}; files as seen by process {pid}"),
        None => named,
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::imex::config::{ConfigSource, ImexConfig, NodeList};
    use crate::facts::imex::unit::ImexUnit;

    use super::*;

    fn daemon(pid: u32, cgroup: &str) -> ImexDaemon {
        ImexDaemon {
            pid,
            cgroup: Some(cgroup.to_owned()),
            uses_driver: true,
        }
    }

    fn ids(facts: &ImexFacts) -> Vec<&'static str> {
        let findings = check(facts, true, None).findings;
        findings.iter().map(|it| it.id).collect()
    }

    #[test]
    fn a_second_session_with_the_driver_is_an_error() {
        let mut facts = ImexFacts {
            daemons: vec![
                daemon(1, "/system.slice/nvidia-imex.service"),
                daemon(2, "/kubepods/pod1/abc"),
            ],
            ..ImexFacts::default()
        };
        let report = check(&facts, true, None);
        assert_eq!(report.summary, "running");
        assert_eq!(report.findings.len(), 1);
        assert!(report.findings[0].fix.contains("driverManaged"));
        facts.daemons[1].uses_driver = false;
        assert_eq!(ids(&facts), [""; 0]);
    }

    #[test]
    fn the_cause_precedes_the_stopped_service() {
        let down = ImexFacts {
            unit: Some(ImexUnit {
                path: "/etc/systemd/system/nvidia-imex.service".to_owned(),
                start: UnitStart::Enabled,
            }),
            configs: vec![ImexConfig::Known {
                source: ConfigSource {
                    path: "/etc/nvidia-imex/config.cfg".to_owned(),
                    named_by: None,
                    seen_by: None,
                },
                nodes: NodeList::Empty("/etc/nvidia-imex/nodes_config.cfg".to_owned()),
            }],
            ..ImexFacts::default()
        };
        let causes_first = ["host-imex-no-nodes", "host-imex-not-running"];
        assert_eq!(ids(&down), causes_first);
        let findings = check(&down, true, None).findings;
        let evidence = "the file lists no nodes, so nvidia-imex has no domain (configuration /etc/nvidia-imex/config.cfg, the default)";
        assert_eq!(findings[0].evidence, evidence);
    }
}
