use std::time::Duration;

use dra_common::Advice;

use crate::args::LeaderElectionArgs;

/// The lease, this replica's identity, and the three durations of client-go's leader election.
#[derive(Clone, Debug)]
pub(crate) struct LeaseConfig {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `POD-UUID`: a restarted container is another replica.
    pub(crate) identity: String,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

/// Why the leader election options are invalid.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(vis = "pub(crate)")]
pub(crate) enum LeaseConfigError {
    #[error("leader election requires the pod's name")]
    #[advice(
        hint = "set --pod-name (POD_NAME), or disable leader election (controller.leaderElection.enabled=false)"
    )]
    PodName,
    #[error(
        "the leader election durations are not in order: lease duration {lease:?}, renew deadline {renew:?}, retry period {retry:?}"
    )]
    #[advice(
        hint = "set --leader-election-lease-duration > --leader-election-renew-deadline > 1.2 times --leader-election-retry-period; the lease duration and the renew deadline must be at least 1s each"
    )]
    Times {
        lease: Duration,
        renew: Duration,
        retry: Duration,
    },
    #[error("cannot create a leader election identity")]
    #[advice(hint = "make /proc/sys/kernel/random/uuid readable")]
    Identity(#[source] std::io::Error),
}

impl LeaseConfig {
    /// Resolves the options; `None` without leader election.
    pub(crate) fn new(
        args: LeaderElectionArgs,
        pod_name: &str,
    ) -> Result<Option<Self>, LeaseConfigError> {
        let LeaderElectionArgs {
            enabled,
            namespace,
            name,
            lease_duration,
            renew_deadline,
            retry_period,
        } = args;
        if !enabled {
            return Ok(None);
        }
        if pod_name.is_empty() {
            return Err(LeaseConfigError::PodName);
        }
        let (lease, renew, retry) = (
            lease_duration.into(),
            renew_deadline.into(),
            retry_period.into(),
        );
        let negative = [lease_duration, renew_deadline, retry_period]
            .iter()
            .any(kube::core::Duration::is_negative);
        if negative || !ordered(lease, renew, retry) {
            return Err(LeaseConfigError::Times {
                lease,
                renew,
                retry,
            });
        }
        let identity = format!("{pod_name}-{}", random_uuid()?);
        Ok(Some(Self {
            namespace,
            name,
            identity,
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
        }))
    }
}

/// client-go's rule, and at least one second, because a Lease counts whole seconds.
fn ordered(lease: Duration, renew: Duration, retry: Duration) -> bool {
    lease > renew
        && renew > retry.mul_f64(1.2)
        && renew >= Duration::from_secs(1)
        && !retry.is_zero()
}

fn random_uuid() -> Result<String, LeaseConfigError> {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .map(|text| text.trim().to_owned())
        .map_err(LeaseConfigError::Identity)
}
