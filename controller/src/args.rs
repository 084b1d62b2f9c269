use clap::{Args as ClapArgs, Parser, Subcommand};
use imex_runtime::{HttpArgs, ImexArgs, KubeArgs, LogArgs};
use kube::core::Duration;

/// Watches ComputeDomain objects and keeps the claim template of each.
///
/// Environment variables that Go's chart sets beyond these options belong to the driver-managed
/// mode and are not looked at.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// Name of this pod: reporter of events and identity in the lease.
    #[arg(long, env = "POD_NAME", default_value = "")]
    pub(crate) pod_name: String,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElectionArgs,
    #[command(flatten)]
    pub(crate) imex: ImexArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) kube: KubeArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the CRD and exit: how the chart's copy is made.
    #[command(hide = true)]
    Crd,
}

/// With more than one replica, which one works.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderElectionArgs {
    /// Work only while holding the lease: needed with more than one replica.
    #[arg(
        long = "leader-election-enabled",
        env = "LEADER_ELECTION_ENABLED",
        num_args = 0..=1,
        default_value = "false",
        default_missing_value = "true",
        require_equals = true,
        value_name = "BOOL",
        value_parser = parse_switch
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
    /// How long others wait for a silent holder.
    #[arg(
        long = "leader-election-lease-duration",
        env = "LEADER_ELECTION_LEASE_DURATION",
        default_value = "15s"
    )]
    pub(crate) lease_duration: Duration,
    /// How long the holder tries to renew before it stops working.
    #[arg(
        long = "leader-election-renew-deadline",
        env = "LEADER_ELECTION_RENEW_DEADLINE",
        default_value = "10s"
    )]
    pub(crate) renew_deadline: Duration,
    /// Pause between attempts to acquire or renew.
    #[arg(
        long = "leader-election-retry-period",
        env = "LEADER_ELECTION_RETRY_PERIOD",
        default_value = "2s"
    )]
    pub(crate) retry_period: Duration,
}

/// An unset value of the chart arrives as the empty string.
fn parse_switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "1" => Ok(true),
        "" | "false" | "0" => Ok(false),
        _ => Err("must be true or false"),
    }
}
