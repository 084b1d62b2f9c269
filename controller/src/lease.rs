//! Leader election over a `Lease` by client-go's rules, so that replicas of the Go driver's controller and of this
//! one exclude each other.

mod config;

use std::time::Duration;

use dra_common::error_chain;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

pub(crate) use config::LeaseConfig;

use crate::api_client::CONTROLLER_NAME;
use crate::fence::Fence;

/// One replica in the election.
pub(crate) struct Elector {
    leases: Api<Lease>,
    config: LeaseConfig,
    observed: Option<ObservedLease>,
    /// Resource version of the lease as last read.
    version: u64,
    has_led: bool,
    /// The API server has an older lease than before: etcd was restored from a snapshot. Watches from an earlier
    /// version would deliver nothing until the API server reaches that version again.
    is_rewound: bool,
    fence: Fence,
}

/// The lease as last read, and the time since which it has not changed, by the local clock. Clocks of other machines
/// are never compared with it.
#[derive(Clone, Debug)]
struct ObservedLease {
    lease: Lease,
    since: Instant,
}

/// What the observed lease allows a replica to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseAction {
    /// There is no lease.
    Create,
    /// This replica holds it.
    Renew,
    /// Its holder released it, or has not renewed it in time.
    Take,
    /// Another replica holds it.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Candidate,
    Leader,
}

// req: CD-25
fn decide(observed: Option<&ObservedLease>, identity: &str, now: Instant) -> LeaseAction {
    let Some(observed) = observed else {
        return LeaseAction::Create;
    };
    let spec = observed.lease.spec.as_ref();
    let holder = spec
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default();
    if holder == identity {
        return LeaseAction::Renew;
    }
    let seconds = spec
        .and_then(|spec| spec.lease_duration_seconds)
        .unwrap_or_default();
    let valid = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    if holder.is_empty() || now.duration_since(observed.since) >= valid {
        LeaseAction::Take
    } else {
        LeaseAction::Wait
    }
}

/// Builds the lease that makes this replica the holder. Acquire time and transitions change only with the holder.
fn held_lease(before: Option<&Lease>, config: &LeaseConfig, now: Timestamp) -> Lease {
    let spec = before
        .and_then(|lease| lease.spec.clone())
        .unwrap_or_default();
    let renews = spec.holder_identity.as_deref() == Some(&config.identity);
    let transitions = spec.lease_transitions.unwrap_or_default();
    let seconds = i32::try_from(config.lease_duration.as_secs()).unwrap_or(i32::MAX);
    Lease {
        metadata: metadata(before, config),
        spec: Some(LeaseSpec {
            holder_identity: Some(config.identity.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: if renews {
                spec.acquire_time
            } else {
                Some(MicroTime(now))
            },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(match before {
                Some(_) if !renews => transitions.saturating_add(1),
                _ => transitions,
            }),
            ..LeaseSpec::default()
        }),
    }
}

/// Builds the lease without a holder, which the next candidate may take at once.
fn released_lease(before: &Lease, config: &LeaseConfig, now: Timestamp) -> Lease {
    let transitions = before.spec.as_ref().and_then(|spec| spec.lease_transitions);
    Lease {
        metadata: metadata(Some(before), config),
        spec: Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        }),
    }
}

fn metadata(before: Option<&Lease>, config: &LeaseConfig) -> ObjectMeta {
    before.map_or_else(
        || ObjectMeta {
            name: Some(config.name.clone()),
            namespace: Some(config.namespace.clone()),
            ..ObjectMeta::default()
        },
        // With its resource version, so that the write fails if the lease has changed since the read.
        |lease| lease.metadata.clone(),
    )
}

// === impl Elector ===

impl Elector {
    /// `fence` is open while this replica holds the lease.
    pub(crate) fn new(client: Client, config: LeaseConfig, fence: Fence) -> Self {
        fence.close();
        Self {
            leases: Api::namespaced(client, &config.namespace),
            config,
            observed: None,
            version: 0,
            has_led: false,
            is_rewound: false,
            fence,
        }
    }

    /// Returns once this replica holds the lease.
    pub(crate) async fn acquire(&mut self) {
        info!(
            lease = self.config.name,
            identity = self.config.identity,
            "waiting for the lease"
        );
        loop {
            let started = Instant::now();
            let deadline = self.config.renew_deadline;
            match timeout(deadline, self.try_acquire_or_renew(Role::Candidate)).await {
                Ok(Ok(true)) => {
                    self.open_fence(started);
                    self.has_led = true;
                    break;
                }
                Ok(Ok(false)) => {}
                Ok(Err(err)) => debug!(error = error_chain(&err), "lease not acquired"),
                Err(_) => debug!("lease not acquired in time"),
            }
            // Jitter: in step with other candidates, one would lose each time.
            sleep(
                self.config
                    .retry_period
                    .mul_f64(1.0 - fastrand::f64() / 4.0),
            )
            .await;
        }
        info!(
            lease = self.config.name,
            identity = self.config.identity,
            "elected leader"
        );
    }

    /// Renews the lease until it is lost: another replica took it, or it was not renewed within the renew deadline,
    /// which ends before others may take it.
    // req: CD-31
    pub(crate) async fn renew_until_lost(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.config.retry_period).await;
            // Taken before the request: other replicas count from its arrival.
            let started = Instant::now();
            let remaining = self
                .config
                .renew_deadline
                .saturating_sub(started.duration_since(renewed));
            let renewal = timeout(remaining, self.try_acquire_or_renew(Role::Leader)).await;
            if self.is_rewound {
                break;
            }
            match renewal {
                Ok(Ok(true)) => {
                    self.open_fence(started);
                    renewed = started;
                }
                Ok(Ok(false)) => {
                    warn!("lease lost: another replica took it");
                    break;
                }
                Ok(Err(err)) => warn!(
                    error = error_chain(&err),
                    "cannot renew the lease; retrying"
                ),
                Err(_) => {
                    warn!("lease lost: not renewed within the deadline");
                    break;
                }
            }
        }
        self.fence.close();
    }

    /// Whether the API server has returned to an older state since this replica first led.
    pub(crate) fn take_rewound(&mut self) -> bool {
        std::mem::take(&mut self.is_rewound)
    }

    /// Opens the fence for the lease duration after `started`. Other replicas wait longer: from when they see the
    /// renewal, which is after `started`.
    fn open_fence(&self, started: Instant) {
        self.fence.open_until(started + self.config.lease_duration);
    }

    /// Releases the lease, so that another replica need not wait for its expiry. If this fails, it expires.
    pub(crate) async fn release(&mut self) {
        let Some(observed) = &self.observed else {
            return;
        };
        let lease = released_lease(&observed.lease, &self.config, Timestamp::now());
        match timeout(self.config.retry_period, self.write(&lease)).await {
            Ok(Ok(_)) => info!("lease released"),
            Ok(Err(err)) => warn!(error = error_chain(&err), "lease not released"),
            Err(_) => warn!("lease not released in time"),
        }
    }

    /// Reads the lease, and writes it if it is ours or free. Returns whether this replica holds it now. A conflict is
    /// an ordinary error: the next attempt reads again.
    async fn try_acquire_or_renew(&mut self, role: Role) -> Result<bool, kube::Error> {
        self.observe(self.leases.get_opt(&self.config.name).await?);
        let before = self.observed.as_ref().map(|observed| &observed.lease);
        let lease = held_lease(before, &self.config, Timestamp::now());
        let written = match (
            decide(
                self.observed.as_ref(),
                &self.config.identity,
                Instant::now(),
            ),
            role,
        ) {
            // A leader that finds another holder has lost the lease, even if it could take it back.
            (LeaseAction::Wait, _) | (LeaseAction::Take, Role::Leader) => return Ok(false),
            (LeaseAction::Create, _) => self.leases.create(&params(), &lease).await?,
            (LeaseAction::Renew, _) | (LeaseAction::Take, Role::Candidate) => {
                self.write(&lease).await?
            }
        };
        self.observe(Some(written));
        Ok(true)
    }

    async fn write(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        self.leases
            .replace(&self.config.name, &params(), lease)
            .await
    }

    /// Stores the lease. Its age restarts only if its spec has changed.
    fn observe(&mut self, lease: Option<Lease>) {
        let since = match (&self.observed, &lease) {
            (Some(observed), Some(lease)) if observed.lease.spec == lease.spec => observed.since,
            _ => Instant::now(),
        };
        if let Some(version) = lease.as_ref().and_then(version) {
            self.is_rewound |= self.has_led && version < self.version;
            self.version = version;
        }
        self.observed = lease.map(|lease| ObservedLease { lease, since });
    }

    /// The lease as the object of an event.
    pub(crate) fn reference(&self) -> ObjectReference {
        let lease = self.observed.as_ref().map(|observed| &observed.lease);
        ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.config.namespace.clone()),
            name: Some(self.config.name.clone()),
            uid: lease.and_then(|lease| lease.metadata.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Reads and writes of one object are never answered from a cache, so its versions only grow.
fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(CONTROLLER_NAME.to_owned()),
        ..PostParams::default()
    }
}

#[cfg(test)]
mod tests;
