//! Checks whether installing, changing or uninstalling the driver would break existing `ComputeDomains` or pods with
//! GPUs.

use std::collections::BTreeSet;
use std::fmt;

use compute_domain_api::{Isolation, Mode};
use dra_common::Advice;
use serde_json::Value;

use crate::reported::{NODES_READY, READY_CONDITION};

/// How many objects a message names.
const NAMED: usize = 10;

/// The planned change of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChange {
    /// It is installed, upgraded or rolled back.
    Run {
        /// The isolation after the change.
        isolation: Isolation,
        /// The mode after the change.
        mode: Mode,
        /// The mode of the current installation.
        installed: Option<Mode>,
    },
    /// It is uninstalled.
    Uninstall,
}

/// A `ComputeDomain` that exists, possibly one that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveDomain {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The channel in its status.
    pub channel: Option<u64>,
    /// The mode of the driver that admitted it. That driver may be uninstalled by now.
    pub mode: Option<Mode>,
    /// Whether the Go driver's driver-managed mode runs IMEX daemons for it.
    pub has_daemons: bool,
}

/// Why a change would break live `ComputeDomains` or pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Advice)]
pub enum Obstacle {
    /// `ComputeDomains` exist: their finalizers and claims need the driver.
    #[advice(
        code = "live-domains",
        hint = "delete them and wait until they no longer exist; or skip this check with helm uninstall --no-hooks, but then their finalizers remain. To keep the release, run helm rollback NAME REVISION: REVISION is the one that helm history shows as deployed or, if none is deployed, as uninstalling"
    )]
    LiveDomains,
    /// `ComputeDomains` have their own channels, which they lose without isolation.
    #[advice(
        code = "own-channels",
        hint = "delete these ComputeDomains and their pods first, keep imex.isolation=channel, or skip this check (guard.override=true)"
    )]
    OwnChannels,
    /// The Go driver's driver-managed mode runs IMEX daemons for `ComputeDomains`.
    #[advice(
        code = "imex-daemons",
        hint = "keep the driver that created these ComputeDomains until they and their pods are deleted, or skip this check (guard.override=true). If imex-dra is to run nvidia-imex (imex.mode=driverManaged), you can instead list the IMEX daemons' namespaces in the controller's ADDITIONAL_NAMESPACES: the controller then removes unused daemons"
    )]
    ImexDaemons,
    /// The other mode's `nvidia-imex` would run on the nodes. Stopping the current one kills every process
    /// that has imported memory.
    #[advice(
        code = "mode-changes",
        hint = "delete these ComputeDomains and their pods first, keep the mode (featureGates.HostManagedIMEX), or skip this check (guard.override=true)"
    )]
    ModeChanges,
    /// Pods have GPUs: kubelet needs the GPU plugin to unprepare their claims.
    #[advice(
        code = "pods-with-gpus",
        hint = "delete these pods and wait until they no longer exist; or, if NVIDIA's GPU driver is to take them over (docs/migration.md), skip this check with guard.override=true or helm uninstall --no-hooks. To keep the release after a refused uninstallation, run helm rollback NAME REVISION: REVISION is the one that helm history shows as deployed or, if none is deployed, as uninstalling"
    )]
    PodsWithGpus,
}

/// The result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// What the change would break, if anything.
    pub obstacle: Option<Obstacle>,
    /// The affected `ComputeDomains`, as `NAMESPACE/NAME`, sorted.
    pub domains: Vec<String>,
    /// The affected pods, as `NAMESPACE/NAME`, sorted.
    pub pods: Vec<String>,
}

// === impl LiveDomain ===

impl LiveDomain {
    /// The mode of the driver that wrote this status. `None` if the status does not show it: the ComputeDomain is not
    /// admitted, or the Go driver wrote the status.
    // req: MODE-13
    pub fn mode_in(status: &Value) -> Option<Mode> {
        let conditions = status.get("conditions")?.as_array()?;
        let find = |kind| conditions.iter().find(|it| it["type"] == kind);
        let is_admitted = find(READY_CONDITION)?["status"] == "True";
        is_admitted.then(|| match find(NODES_READY) {
            Some(_) => Mode::DriverManaged,
            None => Mode::HostManaged,
        })
    }
}

// === impl Preflight ===

impl Preflight {
    /// Checks the change against the existing `ComputeDomains`.
    // req: CHART-13, MODE-13
    pub fn of(change: DriverChange, domains: &[LiveDomain]) -> Self {
        let named = |obstacle: Obstacle, is: &dyn Fn(&LiveDomain) -> bool| {
            let found = domains.iter().filter(|domain| is(domain));
            let mut domains: Vec<_> = found
                .map(|domain| format!("{}/{}", domain.namespace, domain.name))
                .collect();
            domains.sort();
            (!domains.is_empty()).then_some(Self {
                obstacle: Some(obstacle),
                domains,
                pods: Vec::new(),
            })
        };
        let found = match change {
            DriverChange::Uninstall => named(Obstacle::LiveDomains, &|_| true),
            DriverChange::Run {
                isolation,
                mode,
                installed,
            } => {
                let daemons = named(Obstacle::ImexDaemons, &|domain| domain.has_daemons);
                let mode = || {
                    named(Obstacle::ModeChanges, &|domain| {
                        let served_in = domain.mode.or(installed);
                        served_in.is_some_and(|served_in| served_in != mode)
                    })
                };
                let ends = isolation == Isolation::None;
                let channels = || {
                    named(Obstacle::OwnChannels, &|domain| {
                        ends && domain.channel.is_some_and(|channel| channel > 0)
                    })
                };
                daemons.or_else(mode).or_else(channels)
            }
        };
        found.unwrap_or_default()
    }

    /// Checks a change that ends the GPU plugin against the pods with GPUs, as `NAMESPACE/NAME`.
    // req: CHART-25
    pub fn of_pods_with_gpus(pods: BTreeSet<String>) -> Self {
        Self {
            obstacle: (!pods.is_empty()).then_some(Obstacle::PodsWithGpus),
            domains: Vec::new(),
            pods: pods.into_iter().collect(),
        }
    }
}

impl fmt::Display for Preflight {
    /// One sentence: what the change would break, for which objects, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(obstacle) = self.obstacle else {
            return f.write_str("no ComputeDomain and no pod with GPUs would be affected");
        };
        let affected = match obstacle {
            Obstacle::PodsWithGpus => &self.pods,
            _ => &self.domains,
        };
        let count = affected.len();
        let (domains, have) = match count {
            1 => ("ComputeDomain", "has"),
            _ => ("ComputeDomains", "have"),
        };
        match obstacle {
            Obstacle::LiveDomains => write!(f, "{count} {domains} would be left without a driver"),
            Obstacle::OwnChannels => write!(
                f,
                "{count} {domains} would lose an isolated IMEX channel with imex.isolation=none"
            ),
            Obstacle::ImexDaemons => write!(
                f,
                "{count} {domains} {have} IMEX daemons of NVIDIA's driver, but this installation would run no IMEX daemons"
            ),
            Obstacle::ModeChanges => write!(
                f,
                "{count} {domains} would be left without nvidia-imex: the new mode changes who runs nvidia-imex, the hosts or the driver"
            ),
            Obstacle::PodsWithGpus => write!(
                f,
                "{count} {} with GPUs would never terminate, because kubelet needs the GPU plugin to unprepare the claims",
                if count == 1 { "pod" } else { "pods" }
            ),
        }?;
        let named: Vec<_> = affected.iter().take(NAMED).map(String::as_str).collect();
        write!(f, " ({}", named.join(", "))?;
        if count > NAMED {
            write!(f, " and {} more", count - NAMED)?;
        }
        write!(f, "); {}", obstacle.hint())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::fixtures::mk_domain;
    use crate::{Admission, Nodes, Report, StatusSchema, status_patch};

    fn mk_live(name: &str) -> LiveDomain {
        LiveDomain {
            namespace: "team".into(),
            name: name.into(),
            channel: None,
            mode: None,
            has_daemons: false,
        }
    }

    fn with_channel(name: &str, channel: u64) -> LiveDomain {
        LiveDomain {
            channel: Some(channel),
            ..mk_live(name)
        }
    }

    const fn to(isolation: Isolation) -> DriverChange {
        DriverChange::Run {
            isolation,
            mode: Mode::HostManaged,
            installed: None,
        }
    }

    const TO_DRIVER_MANAGED: DriverChange = DriverChange::Run {
        isolation: Isolation::Channel,
        mode: Mode::DriverManaged,
        installed: Some(Mode::HostManaged),
    };

    #[test]
    fn without_domains_every_change_is_allowed() {
        for change in [
            DriverChange::Uninstall,
            to(Isolation::None),
            to(Isolation::Channel),
            TO_DRIVER_MANAGED,
        ] {
            let preflight = Preflight::of(change, &[]);
            assert_eq!(preflight.obstacle, None, "{change:?}");
            assert_eq!(
                preflight.to_string(),
                "no ComputeDomain and no pod with GPUs would be affected"
            );
        }
    }

    #[test]
    fn any_domain_blocks_an_uninstallation() {
        let domains = [mk_live("b"), mk_live("a")];
        let preflight = Preflight::of(DriverChange::Uninstall, &domains);
        assert_eq!(preflight.obstacle, Some(Obstacle::LiveDomains));
        assert_eq!(preflight.domains, ["team/a", "team/b"]);
        let sentence = preflight.to_string();
        assert!(
            sentence.starts_with(
                "2 ComputeDomains would be left without a driver (team/a, team/b); delete them"
            ),
            "{sentence}"
        );
    }

    // req: CHART-25
    #[test]
    fn any_pod_with_gpus_blocks_a_change_that_ends_the_gpu_plugin() {
        let none = Preflight::of_pods_with_gpus(BTreeSet::new());
        assert_eq!(none.obstacle, None);
        let pods = ["team/b", "team/a"].map(str::to_owned);
        let preflight = Preflight::of_pods_with_gpus(pods.into());
        assert_eq!(preflight.obstacle, Some(Obstacle::PodsWithGpus));
        let sentence = preflight.to_string();
        for part in [
            "2 pods with GPUs would never terminate",
            " (team/a, team/b); delete these pods",
            "guard.override=true or helm uninstall --no-hooks",
        ] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn isolation_cannot_be_switched_off_while_a_domain_has_its_own_channel() {
        let domains = [
            mk_live("new"),
            with_channel("shared", 0),
            with_channel("own", 5),
        ];
        let of = |isolation| Preflight::of(to(isolation), &domains);
        assert_eq!(of(Isolation::Channel).obstacle, None);
        let refused = of(Isolation::None);
        assert_eq!(refused.obstacle, Some(Obstacle::OwnChannels));
        assert_eq!(refused.domains, ["team/own"]);
        let without = Preflight::of(to(Isolation::None), &domains[..2]);
        assert_eq!(without.obstacle, None);
    }

    // req: MODE-13
    #[test]
    fn daemons_of_the_go_driver_block_every_installation() {
        let managed = LiveDomain {
            has_daemons: true,
            ..with_channel("managed", 3)
        };
        for isolation in [Isolation::None, Isolation::Channel] {
            let preflight = Preflight::of(to(isolation), std::slice::from_ref(&managed));
            assert_eq!(preflight.obstacle, Some(Obstacle::ImexDaemons));
        }
    }

    // req: MODE-13
    #[test]
    fn any_domain_blocks_a_change_of_mode() {
        let domains = [mk_live("new"), with_channel("own", 5)];
        let refused = Preflight::of(TO_DRIVER_MANAGED, &domains);
        assert_eq!(refused.obstacle, Some(Obstacle::ModeChanges));
        assert_eq!(refused.domains, ["team/new", "team/own"]);
        let sentence = refused.to_string();
        assert!(
            sentence.contains("featureGates.HostManagedIMEX"),
            "{sentence}"
        );
    }

    // req: MODE-13
    #[test]
    fn the_mode_that_admitted_a_domain_takes_precedence_over_the_installed_one() {
        use Mode::{DriverManaged, HostManaged};
        for (served, installed, to, is_refused) in [
            (None, None, DriverManaged, false),
            (Some(HostManaged), None, HostManaged, false),
            (Some(HostManaged), None, DriverManaged, true),
            (Some(DriverManaged), None, DriverManaged, false),
            (Some(DriverManaged), None, HostManaged, true),
            // An upgrade of a release whose installation was refused: no daemon exists.
            (Some(DriverManaged), Some(HostManaged), DriverManaged, false),
            (Some(DriverManaged), Some(HostManaged), HostManaged, true),
        ] {
            let domain = LiveDomain {
                mode: served,
                ..mk_live("train")
            };
            let change = DriverChange::Run {
                isolation: Isolation::Channel,
                mode: to,
                installed,
            };
            let obstacle = Preflight::of(change, &[domain]).obstacle;
            let expected = is_refused.then_some(Obstacle::ModeChanges);
            assert_eq!(obstacle, expected, "{served:?}, {installed:?} to {to:?}");
        }
    }

    // req: MODE-13
    #[test]
    fn a_status_that_the_controller_writes_shows_its_mode() {
        let of = |nodes| {
            let report = Report {
                nodes,
                ..Report::from(Admission::Admitted)
            };
            let domain = mk_domain(json!({}));
            let patch = status_patch(&domain, &report, StatusSchema::FULL, Timestamp::UNIX_EPOCH);
            LiveDomain::mode_in(&patch["status"])
        };
        assert_eq!(of(Nodes::Unmanaged), Some(Mode::HostManaged));
        assert_eq!(of(Nodes::Unknown), Some(Mode::DriverManaged));
        assert_eq!(of(Nodes::known(Vec::new())), Some(Mode::DriverManaged));
    }

    #[test]
    fn a_status_of_another_writer_shows_no_mode() {
        for status in [
            Value::Null,
            json!("Ready"),
            json!({ "status": "Ready", "nodes": [{ "name": "n1" }] }),
            json!({ "conditions": "Ready" }),
            json!({ "conditions": [5, { "type": "Ready" }] }),
            json!({ "conditions": [{ "type": "Ready", "status": "False" }] }),
        ] {
            assert_eq!(LiveDomain::mode_in(&status), None, "{status}");
        }
    }

    #[test]
    fn a_message_names_ten_domains_and_counts_the_rest() {
        let domains: Vec<_> = (10..22)
            .map(|number| mk_live(&format!("d{number}")))
            .collect();
        let sentence = Preflight::of(DriverChange::Uninstall, &domains).to_string();
        assert!(sentence.contains("12 ComputeDomains"), "{sentence}");
        assert!(sentence.contains("team/d19 and 2 more)"), "{sentence}");
        assert!(!sentence.contains("team/d20"), "{sentence}");
    }
}
