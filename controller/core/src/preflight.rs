//! What an operator is about to do to the driver, held against the `ComputeDomains` that are there.

use std::fmt;

use compute_domain_api::{Isolation, Mode};
use dra_common::Advice;
use serde_json::Value;

use crate::reported::{NODES_READY, READY_CONDITION};

/// How many `ComputeDomains` a sentence names.
const NAMED: usize = 10;

/// What is about to happen to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChange {
    /// It is installed, upgraded or rolled back.
    Run {
        /// How it isolates `ComputeDomains` then.
        isolation: Isolation,
        /// Its mode then.
        mode: Mode,
        /// The mode of the installation that exists.
        installed: Option<Mode>,
    },
    /// It is uninstalled.
    Uninstall,
}

/// A `ComputeDomain` that is there, also one that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveDomain {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The channel in its status.
    pub channel: Option<u64>,
    /// The mode of the driver that admitted it, also if that is not installed any more.
    pub mode: Option<Mode>,
    /// Whether the driver-managed mode of the Go driver runs IMEX daemons for it.
    pub has_daemons: bool,
}

/// Why a change would break live `ComputeDomains`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Advice)]
pub enum Obstacle {
    /// There are `ComputeDomains`, whose finalizers and claims need the driver.
    #[advice(
        code = "live-domains",
        hint = "delete them and wait until they are gone, or go on knowingly (helm uninstall --no-hooks): nothing removes their finalizers then; a release that is to stay is set back by helm rollback NAME REVISION, with the revision that helm history calls deployed, or else uninstalling"
    )]
    LiveDomains,
    /// `ComputeDomains` have channels of their own, which end with the isolation.
    #[advice(
        code = "own-channels",
        hint = "delete them and their pods first, keep imex.isolation=channel, or go on knowingly (guard.override=true)"
    )]
    OwnChannels,
    /// IMEX daemons of the Go driver's driver-managed mode run for `ComputeDomains`.
    #[advice(
        code = "imex-daemons",
        hint = "delete them and their pods first, with the driver that made them; where this driver runs nvidia-imex itself, name the namespaces of these daemons instead (ADDITIONAL_NAMESPACES), and it removes them when nobody uses them; or go on knowingly (guard.override=true)"
    )]
    ImexDaemons,
    /// Another `nvidia-imex` is to run on the nodes: programs that import memory end with the one
    /// that runs.
    #[advice(
        code = "mode-changes",
        hint = "delete them and their pods first, keep the mode (featureGates.HostManagedIMEX), or go on knowingly (guard.override=true)"
    )]
    ModeChanges,
}

/// Whether a change may happen, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    /// What is in its way.
    pub obstacle: Option<Obstacle>,
    /// The `ComputeDomains` that are, as `NAMESPACE/NAME`, in this order.
    pub domains: Vec<String>,
}

// === impl LiveDomain ===

impl LiveDomain {
    /// The mode of the driver that wrote this status. `None` if the status does not tell, as that of a ComputeDomain
    /// that is not admitted, or that of the Go driver.
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
    /// Decides by the `ComputeDomains` that are there.
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
        found.unwrap_or(Self {
            obstacle: None,
            domains: Vec::new(),
        })
    }
}

impl fmt::Display for Preflight {
    /// One sentence: what is in the way, which `ComputeDomains`, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(obstacle) = self.obstacle else {
            return f.write_str("no ComputeDomain is in the way");
        };
        let count = self.domains.len();
        let (domains, have) = match count {
            1 => ("ComputeDomain", "has"),
            _ => ("ComputeDomains", "have"),
        };
        match obstacle {
            Obstacle::LiveDomains => write!(f, "{count} {domains} would be left without a driver"),
            Obstacle::OwnChannels => write!(
                f,
                "{count} {domains} {have} an IMEX channel of their own, which isolation none ends"
            ),
            Obstacle::ImexDaemons => write!(
                f,
                "{count} {domains} {have} IMEX daemons of NVIDIA's driver-managed mode, which this driver does not run"
            ),
            Obstacle::ModeChanges => write!(
                f,
                "{count} {domains} would be left without nvidia-imex: the hosts run it in one mode, the driver in the other"
            ),
        }?;
        let named: Vec<_> = self
            .domains
            .iter()
            .take(NAMED)
            .map(String::as_str)
            .collect();
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
    fn without_domains_everything_may_happen() {
        for change in [
            DriverChange::Uninstall,
            to(Isolation::None),
            to(Isolation::Channel),
            TO_DRIVER_MANAGED,
        ] {
            let preflight = Preflight::of(change, &[]);
            assert_eq!(preflight.obstacle, None, "{change:?}");
            assert_eq!(preflight.to_string(), "no ComputeDomain is in the way");
        }
    }

    #[test]
    fn every_domain_is_in_the_way_of_an_uninstallation() {
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

    #[test]
    fn isolation_ends_only_when_no_domain_has_a_channel_of_its_own() {
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
    fn daemons_of_the_other_mode_are_in_the_way_of_every_installation() {
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
    fn every_domain_is_in_the_way_of_another_mode() {
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
    fn the_mode_that_served_a_domain_counts_before_that_of_the_installation() {
        use Mode::{DriverManaged, HostManaged};
        for (served, installed, to, is_refused) in [
            (None, None, DriverManaged, false),
            (Some(HostManaged), None, HostManaged, false),
            (Some(HostManaged), None, DriverManaged, true),
            (Some(DriverManaged), None, DriverManaged, false),
            (Some(DriverManaged), None, HostManaged, true),
            // An upgrade of a release whose installation was refused: no daemon is there.
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
    fn a_status_that_the_controller_writes_tells_its_mode() {
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
    fn a_status_of_others_tells_no_mode() {
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
    fn a_sentence_names_ten_domains_and_counts_the_rest() {
        let domains: Vec<_> = (10..22)
            .map(|number| mk_live(&format!("d{number}")))
            .collect();
        let sentence = Preflight::of(DriverChange::Uninstall, &domains).to_string();
        assert!(sentence.contains("12 ComputeDomains"), "{sentence}");
        assert!(sentence.contains("team/d19 and 2 more)"), "{sentence}");
        assert!(!sentence.contains("team/d20"), "{sentence}");
    }
}
