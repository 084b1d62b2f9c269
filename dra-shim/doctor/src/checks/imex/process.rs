//! Checks that a daemon is running if the host should run one.
//!
//! NVIDIA's GPU operator requires hosts with a disabled and masked unit, so that daemons
//! can run in pods (prerequisites of its DRA driver, NVIDIA/cloud-native-docs#453). AKS and
//! Bottlerocket ship it disabled (Azure/AgentBaker#8839, bottlerocket-kernel-kit#428). No
//! fix undoes that, unless there is evidence that the host should run the daemon.

use nvml_clique::Fabric;

use crate::facts::imex::ImexFacts;
use crate::facts::imex::daemons::PROGRAM;
use crate::facts::imex::unit::{ImexUnit, UnitStart};
use crate::finding::{Finding, Severity};

const NOT_RUNNING: &str = "host-imex-not-running";
const OFF: &str = "host-imex-off";
const UNSEEN: &str = "host-imex-unseen";

const SEE_LOGS: &str =
    "if nvidia-imex exits, see journalctl -u nvidia-imex and /var/log/nvidia-imex.log";
/// The usual reason for a host with a service that does not start.
const IMEX_IN_PODS: &str = "this is correct if a DRA driver runs the IMEX daemons in pods";
const NO_FIX_IF_PODS: &str = "none needed if pods run nvidia-imex";

/// Whether the node's fabric needs a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DaemonNeed {
    /// It is in a fabric of more than one node.
    Yes,
    /// NVML was not queried, or did not report it.
    Unknown,
    /// It has no driver, or is in no such fabric.
    No,
}

impl DaemonNeed {
    pub(super) fn new(module_is_loaded: bool, fabric: Option<&Fabric>) -> Self {
        match fabric {
            _ if !module_is_loaded => Self::No,
            Some(Fabric::NoClique(_)) => Self::No,
            Some(Fabric::Clique(_)) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

/// A daemon in a container counts like the service.
pub(super) fn check(facts: &ImexFacts, need: DaemonNeed) -> Option<Finding> {
    if !facts.daemons.is_empty() {
        return None;
    }
    if facts.is_incomplete {
        return unseen(facts);
    }
    match (&facts.unit, &facts.program) {
        (Some(unit), _) if unit.start == UnitStart::Enabled => Some(Finding::error(
            NOT_RUNNING,
            &unit.path,
            "the service is enabled, but not running",
            format!("systemctl restart nvidia-imex; {SEE_LOGS}"),
        )),
        _ if need == DaemonNeed::No => None,
        (Some(unit), _) => Some(switched_off(facts, unit)),
        (None, Some(program)) => Some(without_service(facts, program)),
        (None, None) => Some(absent(facts, need)),
    }
}

/// A running daemon must not be reported as stopped: a restart would end running jobs.
fn unseen(facts: &ImexFacts) -> Option<Finding> {
    let start = facts.unit.as_ref().map(|unit| unit.start);
    let is_expected = start == Some(UnitStart::Enabled) || facts.expected_by.is_some();
    is_expected.then(|| {
        Finding::info(
            UNSEEN,
            PROGRAM,
            "the host should run nvidia-imex, but doctor cannot see whether it is running: not \
             all processes of the host are visible here (/proc is mounted with hidepid, or \
             belongs to a container)",
            "run systemctl is-active nvidia-imex, or run cdi-gen doctor as root with the PID namespace of the host (in a pod: hostPID: true)",
        )
    })
}

/// A host for daemons in pods has a unit that nothing starts.
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
                "the service is {state} and not running, but {plugin}: the host must run nvidia-imex"
            ),
            format!("{start}; {SEE_LOGS}"),
        ),
        None => Finding::info(
            OFF,
            &unit.path,
            format!("the service is {state} and not running; {IMEX_IN_PODS}"),
            format!("{NO_FIX_IF_PODS}; if the host should run nvidia-imex: {start}"),
        ),
    }
}

/// Bottlerocket and driver containers have the program without a service.
fn without_service(facts: &ImexFacts, program: &str) -> Finding {
    match &facts.expected_by {
        Some(plugin) => Finding::error(
            NOT_RUNNING,
            program,
            format!(
                "no service of the host starts nvidia-imex, but {plugin}: the host must run nvidia-imex"
            ),
            "create a service on the host that runs nvidia-imex",
        ),
        None => Finding::info(
            OFF,
            program,
            format!(
                "nvidia-imex is installed without a service and is not running; {IMEX_IN_PODS}"
            ),
            format!(
                "{NO_FIX_IF_PODS}; if the host should run nvidia-imex, create a service for it"
            ),
        ),
    }
}

fn absent(facts: &ImexFacts, need: DaemonNeed) -> Finding {
    let (severity, evidence) = match (&facts.expected_by, need) {
        (Some(plugin), _) => (
            Severity::Error,
            format!("nvidia-imex is absent (no unit file, program or process), but {plugin}: the host must run nvidia-imex"),
        ),
        (None, DaemonNeed::Yes) => (
            Severity::Warning,
            "nvidia-imex is absent (no unit file, program or process): this node shares no memory with other nodes"
                .to_owned(),
        ),
        (None, DaemonNeed::Unknown | DaemonNeed::No) => (
            Severity::Info,
            "nvidia-imex is absent (no unit file, program or process). A node outside an NVLink fabric does not \
             need nvidia-imex; whether this node is in a fabric is unknown, because NVML was not \
             queried or did not report the fabric"
                .to_owned(),
        ),
    };
    let fix = "on a node of an NVLink fabric: install the package nvidia-imex in the driver's version; enable its service only if the host, and not pods, should run nvidia-imex";
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
    fn only_a_host_that_should_run_imex_gets_an_error() {
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
            let first = check(&facts, DaemonNeed::new(true, fabric));
            let first = first.map(|it| (it.id, it.severity));
            assert_eq!(first, found, "{facts:?}");
            assert_eq!(check(&facts, DaemonNeed::new(false, None)), None);
        }
    }
}
