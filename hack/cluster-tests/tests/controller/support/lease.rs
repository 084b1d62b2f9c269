//! The lease that a test's controllers compete for.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::within;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use super::{Controller, Fixture, Setup};

/// The lease's duration. Short, for short tests.
pub(crate) const LEASE: Duration = Duration::from_secs(4);

/// Pause between attempts to get the lease. [`LEASE`] is a multiple of it, so that an attempt follows
/// immediately after the lease has expired.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

const NAME: &str = "controller";

pub(super) fn flags(namespace: &str) -> [String; 6] {
    [
        "--leader-election-enabled=true".to_owned(),
        format!("--leader-election-lease-lock-namespace={namespace}"),
        format!("--leader-election-lease-lock-name={NAME}"),
        format!("--leader-election-lease-duration={}s", LEASE.as_secs()),
        "--leader-election-renew-deadline=3s".to_owned(),
        format!("--leader-election-retry-period={}s", RETRY.as_secs()),
    ]
}

impl Fixture {
    /// Starts two controllers: `first` leads, `second` is a ready standby. Both assign channels if `first` does.
    pub(crate) async fn start_two(&self, first: Setup) -> Result<(Controller, Controller)> {
        let channels = first.channels;
        let first = self
            .start_with(Setup {
                pod: "first",
                elected: true,
                ..first
            })
            .await?;
        self.leads_within(LEASE, "first").await?;
        let second = self
            .start_with(Setup {
                pod: "second",
                elected: true,
                channels,
                ..Setup::default()
            })
            .await?;
        self.leads("first").await?;
        Ok((first, second))
    }

    /// Fails unless the pod with this name holds the lease.
    pub(crate) async fn leads(&self, pod: &str) -> Result<()> {
        let holder = self.leader().await?;
        ensure!(holder == pod, "the leader is {holder:?}");
        Ok(())
    }

    /// Waits until the pod holds the lease. Returns how long it took.
    pub(crate) async fn leads_within(&self, limit: Duration, pod: &str) -> Result<Duration> {
        let what = format!("{pod} leads");
        within(limit, &what, async || self.leads(pod).await).await
    }

    /// The pod that holds the lease; empty after a release.
    pub(crate) async fn leader(&self) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let spec = leases.get(NAME).await?.spec.context("an empty lease")?;
        let identity = spec.holder_identity.unwrap_or_default();
        // An identity is the pod's name and a UUID.
        let pod = identity.split_once('-').map(|(pod, _)| pod.to_owned());
        Ok(pod.unwrap_or_default())
    }
}
