//! Whether a daemon runs where the host is to run it.
//!
//! NVIDIA's GPU operator asks for hosts whose unit is disabled and masked, so that
//! daemons can run in pods (prerequisites of its DRA driver,
//! NVIDIA/cloud-native-docs#453); AKS and Bottlerocket ship it disabled
//! (Azure/AgentBaker#8839, bottlerocket-kernel-kit#428). No fix undoes that, unless
//! the host is seen to be the one that runs it.

use nvml_clique::Fabric;

use crate::facts::imex::ImexFacts;
use crate::facts::imex::daemons::PROGRAM;
use crate::facts::imex::unit::{ImexUnit, UnitStart};
use crate::finding::{Finding, Severity};

const NOT_RUNNING: &str = "host-imex-not-running";
const OFF: &str = "host-imex-off";
const UNSEEN: &str = "host-imex-unseen";

const WHY_IT_ENDS: &str =
    "journalctl -u nvidia-imex and /var/log/nvidia-imex.log say why if it ends";
/// What a host is like whose service does not start.
const PREPARED: &str =
    "so a host is prepared whose pods run it, those of a driver that manages daemons itself";
const IF_PODS: &str = "nothing, where pods run it";

/// Whether the node needs a daemon, by its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It is in a fabric of more than one node.
    Yes,
    /// NVML was not asked, or knows no better.
    Unknown,
    /// It has no driver, or is in no such fabric.
    No,
}

impl Need {
    pub(super) fn new(module_is_loaded: bool, fabric: Option<&Fabric>) -> Self {
        match fabric {
            _ if !module_is_loaded => Self::No,
            Some(Fabric::NoClique(_)) => Self::No,
            Some(Fabric::Clique(_)) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

/// A daemon in a container is as good as the service.
pub(super) fn check(facts: &ImexFacts, need: Need) -> Option<Finding> {
    if !facts.daemons.is_empty() {
        return None;
    }
    if facts.may_have_more {
        return unseen(facts);
    }
    match (&facts.unit, &facts.program) {
        (Some(unit), _) if unit.start == UnitStart::Enabled => Some(Finding::error(
            NOT_RUNNING,
            &unit.path,
            "the service is enabled, and no process of it runs",
            format!("systemctl restart nvidia-imex; {WHY_IT_ENDS}"),
        )),
        _ if need == Need::No => None,
        (Some(unit), _) => Some(switched_off(facts, unit)),
        (None, Some(program)) => Some(without_service(facts, program)),
        (None, None) => Some(absent(facts, need)),
    }
}

/// One that runs, and is taken for one that does not, would be restarted under its jobs.
fn unseen(facts: &ImexFacts) -> Option<Finding> {
    let start = facts.unit.as_ref().map(|unit| unit.start);
    let is_expected = start == Some(UnitStart::Enabled) || facts.expected_by.is_some();
    is_expected.then(|| {
        Finding::info(
            UNSEEN,
            PROGRAM,
            "the host is to run it, and not all of the host's processes are shown here (/proc is \
             mounted with hidepid, or it is that of a container): whether it runs is not known",
            "systemctl is-active nvidia-imex; or run cdi-gen doctor as root on the host, in a pod with hostPID: true",
        )
    })
}

/// A unit that nothing starts is what a host for daemons in pods has.
fn switched_off(facts: &ImexFacts, unit: &ImexUnit) -> Finding {
    let (state, start) = match unit.start {
        UnitStart::Masked => ("masked", "systemctl unmask nvidia-imex && "),
        UnitStart::Enabled | UnitStart::Disabled => ("disabled", ""),
    };
    let start = format!("{start}systemctl enable --now nvidia-imex");
    match &facts.expected_by {
        Some(plugin) => Finding::error(
            NOT_RUNNING,
            &unit.path,
            format!(
                "the service is {state}, no process of it runs, and {plugin}: the host is to run it"
            ),
            format!("{start}; {WHY_IT_ENDS}"),
        ),
        None => Finding::info(
            OFF,
            &unit.path,
            format!("the service is {state}, and no process of it runs: {PREPARED}"),
            format!("{IF_PODS}; where the host is to run it: {start}"),
        ),
    }
}

/// As Bottlerocket and driver containers have it.
fn without_service(facts: &ImexFacts, program: &str) -> Finding {
    match &facts.expected_by {
        Some(plugin) => Finding::error(
            NOT_RUNNING,
            program,
            format!("nothing of the host starts it, and {plugin}: the host is to run it"),
            "have a service of the host run it",
        ),
        None => Finding::info(
            OFF,
            program,
            format!("it is installed without a service, and does not run: {PREPARED}"),
            format!("{IF_PODS}; where the host is to run it, it needs a service"),
        ),
    }
}

fn absent(facts: &ImexFacts, need: Need) -> Finding {
    let (severity, evidence) = match (&facts.expected_by, need) {
        (Some(plugin), _) => (
            Severity::Error,
            format!("no unit file, no program and no process, and {plugin}: the host is to run it"),
        ),
        (None, Need::Yes) => (
            Severity::Warning,
            "no unit file, no program and no process: memory is shared with no other node"
                .to_owned(),
        ),
        (None, Need::Unknown | Need::No) => (
            Severity::Info,
            "no unit file, no program and no process. A node outside of any NVLink fabric needs \
             none; whether this is one is not known, since NVML was not asked or has no answer"
                .to_owned(),
        ),
    };
    let fix = "on a node of an NVLink fabric: install the package nvidia-imex of the driver's version; enable its service only where the host is to run it, and not pods";
    Finding::new(severity, "host-imex-absent", PROGRAM, evidence, fix)
}

#[cfg(test)]
mod tests {
    use nvml_clique::{ClusterUuid, Gpu, GpuFabricState, GpuRef};

    use super::*;

    fn unit(start: UnitStart) -> ImexUnit {
        ImexUnit {
            path: "/etc/systemd/system/nvidia-imex.service".to_owned(),
            start,
        }
    }

    #[test]
    fn only_a_host_that_is_to_run_it_is_told_to() {
        let clique = Fabric::from_gpus(&[Gpu {
            id: GpuRef {
                index: 0,
                uuid: None,
            },
            name: None,
            fabric: GpuFabricState::Completed {
                cluster: ClusterUuid([1; 16]),
                clique_id: 0,
            },
            health: None,
        }]);
        let plugin = || Some("a plugin leaves it to the host".to_owned());
        let disabled = || Some(unit(UnitStart::Disabled));
        let masked = || Some(unit(UnitStart::Masked));
        let program = || Some("/usr/bin/nvidia-imex".to_owned());
        for (unit, program, expected_by, fabric, found) in [
            (
                None,
                None,
                None,
                None,
                Some(("host-imex-absent", Severity::Info)),
            ),
            (
                None,
                None,
                None,
                Some(&clique),
                Some(("host-imex-absent", Severity::Warning)),
            ),
            (
                None,
                None,
                plugin(),
                None,
                Some(("host-imex-absent", Severity::Error)),
            ),
            (
                None,
                program(),
                None,
                Some(&clique),
                Some((OFF, Severity::Info)),
            ),
            (
                None,
                program(),
                plugin(),
                None,
                Some((NOT_RUNNING, Severity::Error)),
            ),
            (
                disabled(),
                program(),
                None,
                Some(&clique),
                Some((OFF, Severity::Info)),
            ),
            (masked(), program(), None, None, Some((OFF, Severity::Info))),
            (
                masked(),
                program(),
                plugin(),
                None,
                Some((NOT_RUNNING, Severity::Error)),
            ),
        ] {
            let facts = ImexFacts {
                unit,
                program,
                expected_by,
                ..ImexFacts::default()
            };
            let first = check(&facts, Need::new(true, fabric));
            let first = first.map(|it| (it.id, it.severity));
            assert_eq!(first, found, "{facts:?}");
            assert_eq!(check(&facts, Need::new(false, None)), None);
        }
    }
}
