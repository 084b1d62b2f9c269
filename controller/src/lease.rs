//! Leader election over a `Lease`, as client-go does it, so that both implementations' replicas
//! respect each other.

mod config;

use std::time::Duration;

use imex_runtime::error_chain;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

pub(crate) use config::LeaseConfig;

use crate::cluster::MANAGER;

/// One candidate.
pub(crate) struct Elector {
    leases: Api<Lease>,
    config: LeaseConfig,
    seen: Option<Seen>,
}

/// A record, and since when it is what it is by our own clock: other clocks are never compared.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    since: Instant,
}

/// What a candidate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is no record.
    Create,
    /// It is ours.
    Renew,
    /// Its holder gave it up or fell silent.
    Take,
    /// Somebody holds it.
    Wait,
}

/// Whether a candidate works already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    Waiting,
    Leading,
}

fn decide(seen: Option<&Seen>, identity: &str, now: Instant) -> Step {
    let Some(seen) = seen else {
        return Step::Create;
    };
    let spec = seen.lease.spec.as_ref();
    let holder = spec
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default();
    if holder == identity {
        return Step::Renew;
    }
    let seconds = spec
        .and_then(|spec| spec.lease_duration_seconds)
        .unwrap_or_default();
    let valid = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    if holder.is_empty() || now.duration_since(seen.since) >= valid {
        Step::Take
    } else {
        Step::Wait
    }
}

/// The record that makes `identity` the holder. The time of acquisition and the number of changes
/// of hands move only if the holder changes.
fn held(before: Option<&Lease>, config: &LeaseConfig, now: Timestamp) -> Lease {
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

/// The record that lets the next candidate go on at once.
fn released(before: &Lease, config: &LeaseConfig, now: Timestamp) -> Lease {
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
        // With its resource version: a write between our read and ours makes ours fail.
        |lease| lease.metadata.clone(),
    )
}

impl Elector {
    pub(crate) fn new(client: Client, config: LeaseConfig) -> Self {
        Self {
            leases: Api::namespaced(client, &config.namespace),
            config,
            seen: None,
        }
    }

    /// Returns when the lease is held.
    pub(crate) async fn acquire(&mut self) {
        info!(
            lease = self.config.name,
            identity = self.config.identity,
            "waiting for the lease"
        );
        loop {
            match timeout(self.config.renew_deadline, self.attempt(Term::Waiting)).await {
                Ok(Ok(true)) => break,
                Ok(Ok(false)) => {}
                Ok(Err(err)) => debug!(error = error_chain(&err), "lease not acquired"),
                Err(_) => debug!("lease not acquired in time"),
            }
            sleep(self.config.retry_period).await;
        }
        info!(
            lease = self.config.name,
            identity = self.config.identity,
            "leading"
        );
    }

    /// Renews the lease and returns when it is lost: taken by another, or not renewed within the
    /// renew deadline, which ends before others may take it.
    pub(crate) async fn keep(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.config.retry_period).await;
            // The time before the request: others count from its arrival.
            let started = Instant::now();
            let left = self
                .config
                .renew_deadline
                .saturating_sub(started.duration_since(renewed));
            match timeout(left, self.attempt(Term::Leading)).await {
                Ok(Ok(true)) => renewed = started,
                Ok(Ok(false)) => return warn!("the lease was taken by another replica"),
                Ok(Err(err)) => warn!(error = error_chain(&err), "lease not renewed"),
                Err(_) => return warn!("the lease could not be renewed in time"),
            }
        }
    }

    /// Gives the lease up, so that another replica need not wait. Failing does not matter: it
    /// expires.
    pub(crate) async fn release(&mut self) {
        let Some(seen) = &self.seen else { return };
        let lease = released(&seen.lease, &self.config, Timestamp::now());
        match timeout(self.config.retry_period, self.write(&lease)).await {
            Ok(Ok(_)) => info!("lease released"),
            Ok(Err(err)) => warn!(error = error_chain(&err), "lease not released"),
            Err(_) => warn!("lease not released in time"),
        }
    }

    /// One look, and one write if the lease is ours or free. Says whether it is held now. A
    /// conflict is an error like any other: the next look decides.
    async fn attempt(&mut self, term: Term) -> Result<bool, kube::Error> {
        self.observe(self.leases.get_opt(&self.config.name).await?);
        let before = self.seen.as_ref().map(|seen| &seen.lease);
        let lease = held(before, &self.config, Timestamp::now());
        let written = match (
            decide(self.seen.as_ref(), &self.config.identity, Instant::now()),
            term,
        ) {
            // Who led and finds another's record may not go on as if nothing had happened.
            (Step::Wait, _) | (Step::Take, Term::Leading) => return Ok(false),
            (Step::Create, _) => self.leases.create(&params(), &lease).await?,
            (Step::Renew, _) | (Step::Take, Term::Waiting) => self.write(&lease).await?,
        };
        self.observe(Some(written));
        Ok(true)
    }

    async fn write(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        self.leases
            .replace(&self.config.name, &params(), lease)
            .await
    }

    /// Notes the record; its age starts anew only if holder or times changed.
    fn observe(&mut self, lease: Option<Lease>) {
        let since = match (&self.seen, &lease) {
            (Some(seen), Some(lease)) if seen.lease.spec == lease.spec => seen.since,
            _ => Instant::now(),
        };
        self.seen = lease.map(|lease| Seen { lease, since });
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

#[cfg(test)]
mod tests;
