use clap::{Args as ClapArgs, Parser, Subcommand};
use compute_domain_api::Settings;
use compute_domain_api::driver_managed::DEFAULT_MAX_NODES;
use daemon_runtime::{HttpArgs, ImexArgs, KubeArgs, LogArgs, StartError};
use kube::core::Duration;

use crate::apply_crds::ApplyCrdsArgs;
use crate::crd_kind::CrdKind;
use crate::namespace_args::NamespaceArgs;
use crate::preflight::PreflightArgs;

/// Creates a claim template for each ComputeDomain, and deletes it when the ComputeDomain is deleted.
///
/// The chart of the Go driver, NVIDIA's dra-driver-nvidia-gpu, sets further environment variables. They concern its
/// driver-managed mode and are ignored.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// Name of this pod, for events and the lease identity.
    #[arg(long, env = "POD_NAME", default_value = "")]
    pub(crate) pod_name: String,
    #[command(flatten)]
    pub(crate) namespaces: NamespaceArgs,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElectionArgs,
    #[command(flatten)]
    pub(crate) imex: ImexArgs,
    #[command(flatten)]
    pub(crate) clique_label: CliqueLabelArgs,
    #[command(flatten)]
    pub(crate) daemons: DaemonArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) kube: KubeArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options for the NVLink clique label of nodes.
#[derive(ClapArgs, Clone, Copy, Debug)]
#[command(next_help_heading = "IMEX")]
pub(crate) struct CliqueLabelArgs {
    /// Label each node with its NVLink clique: nvidia.com/gpu.clique.
    #[arg(
        long = "gpu-clique-label-enabled",
        env = "GPU_CLIQUE_LABEL_ENABLED",
        num_args = 0..=1,
        default_value = "false",
        default_missing_value = "true",
        require_equals = true,
        value_name = "BOOL",
        value_parser = parse_bool
    )]
    gpu_clique_label_enabled: bool,
}

/// Options for IMEX daemons in driver-managed mode.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "IMEX")]
pub(crate) struct DaemonArgs {
    /// Maximum number of IMEX daemons in an `NVLink` clique: 1 to 2048. A running clique keeps its maximum until none
    /// of its daemons runs.
    #[arg(
        long = "max-nodes-per-imex-domain",
        env = "MAX_NODES_PER_IMEX_DOMAIN",
        default_value_t = DEFAULT_MAX_NODES,
        value_name = "COUNT",
        value_parser = parse_max_nodes
    )]
    pub(crate) max_nodes: u32,
    /// How long the update of an outdated IMEX daemon waits for claims on its node, such as 12h; after that, the daemon
    /// is replaced, which kills the workloads of these claims. Unset: the update waits without limit.
    #[arg(
        long = "force-after",
        env = "IMEX_FORCE_AFTER",
        default_value = "",
        hide_default_value = true,
        value_name = "DURATION",
        value_parser = parse_force_after
    )]
    pub(crate) force_after: ForceAfter,
    /// Label selector of the IMEX daemons' pods in the namespace of this pod.
    #[arg(
        long = "imex-daemon-selector",
        env = "IMEX_DAEMON_SELECTOR",
        default_value = "imex-dra-component=imex-daemon",
        value_name = "SELECTOR"
    )]
    pub(crate) selector: String,
}

/// How long an update waits for claims; `None`: without limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForceAfter(pub(crate) Option<std::time::Duration>);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print a CRD and exit. The chart contains a copy.
    #[command(hide = true)]
    Crd {
        /// Kind of the objects.
        #[arg(value_enum, default_value_t)]
        kind: CrdKind,
    },
    /// Apply the CRDs that this program contains, and wait until they are served.
    ///
    /// Takes over CRDs of another driver. Exit code 0: the CRDs are served; 3: refused, because a ComputeDomain
    /// would lose versions or fields; 1: failed; run the command again.
    ApplyCrds(ApplyCrdsArgs),
    /// Check whether every live ComputeDomain and every pod with GPUs survives a change of the driver.
    ///
    /// Read-only. Exit code 0: all survive; 3: some do not; 1: the check failed.
    Preflight(Box<PreflightArgs>),
}

/// Options for leader election among several replicas.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderElectionArgs {
    /// Reconcile only while holding the lease. Needed with more than one replica.
    #[arg(
        long = "leader-election-enabled",
        env = "LEADER_ELECTION_ENABLED",
        num_args = 0..=1,
        default_value = "false",
        default_missing_value = "true",
        require_equals = true,
        value_name = "BOOL",
        value_parser = parse_bool
    )]
    pub(crate) enabled: bool,
    /// Namespace of the lease.
    #[arg(
        long = "leader-election-lease-lock-namespace",
        env = "LEADER_ELECTION_LEASE_LOCK_NAMESPACE",
        default_value = "default"
    )]
    pub(crate) namespace: String,
    /// Name of the lease.
    #[arg(
        long = "leader-election-lease-lock-name",
        env = "LEADER_ELECTION_LEASE_LOCK_NAME",
        default_value = "nvidia-compute-domain-controller"
    )]
    pub(crate) name: String,
    /// How long other replicas wait before they replace a holder that does not renew the lease.
    #[arg(
        long = "leader-election-lease-duration",
        env = "LEADER_ELECTION_LEASE_DURATION",
        default_value = "15s"
    )]
    pub(crate) lease_duration: Duration,
    /// How long the holder tries to renew the lease before it stops reconciling.
    #[arg(
        long = "leader-election-renew-deadline",
        env = "LEADER_ELECTION_RENEW_DEADLINE",
        default_value = "10s"
    )]
    pub(crate) renew_deadline: Duration,
    /// Pause between attempts to acquire or renew the lease.
    #[arg(
        long = "leader-election-retry-period",
        env = "LEADER_ELECTION_RETRY_PERIOD",
        default_value = "2s"
    )]
    pub(crate) retry_period: Duration,
}

// === impl CliqueLabelArgs ===

impl CliqueLabelArgs {
    /// Whether nodes get the label; group claims cannot be allocated without it.
    pub(crate) fn resolve(self, settings: &Settings) -> Result<bool, StartError> {
        if settings.group_claims && !self.gpu_clique_label_enabled {
            return Err(StartError::new(
                &LabelNeeded,
                "set kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled (--gpu-clique-label-enabled, GPU_CLIQUE_LABEL_ENABLED) to true, or resources.computeDomains.imex.groupClaims (--imex-group-claims, IMEX_GROUP_CLAIMS) to false",
            ));
        }
        Ok(self.gpu_clique_label_enabled)
    }
}

/// Group claims need the label of nodes.
#[derive(Debug, thiserror::Error)]
#[error("imex.groupClaims requires that nodes are labelled with their NVLink clique")]
struct LabelNeeded;

/// The chart renders an unset value as the empty string.
fn parse_max_nodes(text: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Ok(DEFAULT_MAX_NODES);
    }
    let count = text.parse().ok().filter(|count| (1..=2048).contains(count));
    count.ok_or_else(|| {
        "must be from 1 to 2048: resources.computeDomains.imex.maxNodesPerIMEXDomain is the number of nodes of the largest NVLink clique".to_owned()
    })
}

/// The chart renders an unset value as the empty string.
fn parse_force_after(text: &str) -> Result<ForceAfter, String> {
    if text.is_empty() {
        return Ok(ForceAfter(None));
    }
    let after = text.parse::<Duration>().ok();
    let after = after.filter(|after| !after.is_negative());
    let after = after.map(std::time::Duration::from);
    match after.filter(|after| !after.is_zero()) {
        Some(after) => Ok(ForceAfter(Some(after))),
        None => Err("must be a duration such as 90m or 12h: resources.computeDomains.imex.forceAfter is how long the update of an IMEX daemon waits for claims on its node; leave it empty to wait without limit".to_owned()),
    }
}

/// The chart renders an unset value as the empty string.
fn parse_bool(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "1" => Ok(true),
        "" | "false" | "0" => Ok(false),
        _ => Err("must be true or false"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_reference_has_every_option() {
        let text = reference::program_page(Args::command());
        reference::assert_page(
            "compute-domain-controller.md",
            env!("CARGO_PKG_NAME"),
            &text,
        );
    }
}
