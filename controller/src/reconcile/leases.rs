//! Sends requests about the Leases of channels and stores the results.

use std::time::Duration;

use compute_domain_core::{ChannelLease, Domain, Findings, Observed, Rejection, StatusSchema};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::pass::Pass;
use super::{Context, Flow};
use crate::api_client::RequestError;
use crate::refusals::refusal_in;

impl Context {
    /// When the Leases of this UID are due again.
    pub(super) fn wake_at(&self, observed: &Observed) -> Option<Instant> {
        let at = observed.channels.as_ref()?.wake_at()?;
        let wait = Duration::try_from(at.duration_since((self.now)()));
        Some(Instant::now() + wait.unwrap_or_default())
    }

    /// Probes whether the CRD has the field of the channel: once, before the first Lease.
    pub(super) async fn try_channel(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
    ) -> Result<Flow, RequestError> {
        let schema = StatusSchema::CHANNEL_ONLY;
        match self.api.try_status(domain, schema).await {
            Ok(()) => self.schema.set_channel_tried(),
            Err(err) if self.schema.learn_from(&err) => self.schema.set_channel_tried(),
            Err(err) => self.refresh_domain(pass, domain, err).await?,
        }
        Ok(Flow::Continue)
    }

    /// Creates the Lease of a channel for this domain, unless it exists by now.
    pub(super) async fn create_lease(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        number: u32,
        lease: &Lease,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        self.index.lock().start_lease(pass.key, number);
        let created = self.post_lease(pass, lease).await;
        self.index.lock().end_lease(pass.key);
        match created {
            Ok(true) if domain.channel().is_some() => {
                self.reports.channel_rebuilt(domain, number);
            }
            Ok(true) => info!(number, "IMEX channel assigned"),
            Ok(false) => {}
            Err(err) => {
                let message = refusal_in(&err, pass.failures).ok_or(err)?;
                let refusal = Rejection::ChannelRefused { message };
                self.refuse(pass.key, domain, refusal, findings);
            }
        }
        Ok(Flow::Continue)
    }

    /// Recreates a Lease that another client deleted too early.
    pub(super) async fn restore_lease(
        &self,
        pass: &Pass<'_>,
        lease: &Lease,
    ) -> Result<Flow, RequestError> {
        if self.post_lease(pass, lease).await? {
            let lease = lease.metadata.name.as_deref();
            warn!(
                lease,
                "the Lease of an IMEX channel was deleted while the channel was in use or cooling down; creating it again"
            );
        }
        Ok(Flow::Continue)
    }

    /// Creates a Lease. Returns whether there was none of that name.
    async fn post_lease(&self, pass: &Pass<'_>, lease: &Lease) -> Result<bool, RequestError> {
        let created = self.api.create_lease(lease).await;
        let is_new = created.is_ok();
        let found = match created {
            Ok(created) => ChannelLease::new(&created),
            // Created by another controller or client, or by an earlier request whose response was lost.
            Err(err) if err.is_already_exists() => {
                let name = lease.metadata.name.as_deref().unwrap_or_default();
                self.api.get_lease(name).await?
            }
            Err(err) => return Err(err),
        };
        if let Some(found) = found {
            let found = self.with_label_of_channel(pass, found).await?;
            self.index.lock().learn_lease(found, (self.now)());
        }
        Ok(is_new)
    }

    /// Restores the label of the domain's own Lease.
    async fn with_label_of_channel(
        &self,
        pass: &Pass<'_>,
        lease: ChannelLease,
    ) -> Result<ChannelLease, RequestError> {
        if lease.is_labelled() || lease.holder() != Some(pass.key) {
            return Ok(lease);
        }
        let patch = lease.relabelled();
        let restored = self.api.change_lease(&lease, patch).await?;
        Ok(restored.unwrap_or(lease))
    }

    pub(super) async fn change_lease(
        &self,
        pass: &mut Pass<'_>,
        lease: &ChannelLease,
        patch: Value,
    ) -> Result<Flow, RequestError> {
        match self.api.change_lease(lease, patch).await {
            Ok(Some(changed)) => self.index.lock().learn_lease(changed, (self.now)()),
            Ok(None) => self.lease_gone(lease),
            Err(err) => self.refresh_lease(pass, lease, err).await?,
        }
        Ok(Flow::Continue)
    }

    pub(super) async fn delete_lease(
        &self,
        pass: &mut Pass<'_>,
        lease: &ChannelLease,
    ) -> Result<Flow, RequestError> {
        match self.api.delete_lease(lease).await {
            Ok(()) => {
                info!(number = lease.number(), "IMEX channel is free");
                self.lease_gone(lease);
            }
            Err(err) => self.refresh_lease(pass, lease, err).await?,
        }
        Ok(Flow::Continue)
    }

    fn lease_gone(&self, lease: &ChannelLease) {
        let mut index = self.index.lock();
        index.remove_lease(lease.number(), lease.uid());
    }

    /// After a failed request: if the Lease has changed or is deleted, stores that, so that the next decision uses
    /// it.
    async fn refresh_lease(
        &self,
        pass: &mut Pass<'_>,
        lease: &ChannelLease,
        err: RequestError,
    ) -> Result<(), RequestError> {
        if err.is_not_found() {
            self.lease_gone(lease);
            return Ok(());
        }
        if !err.is_outdated() || std::mem::replace(&mut pass.refreshed, true) {
            return Err(err);
        }
        let now = self.api.get_lease(&lease.name()).await?;
        if now.as_ref().map(ChannelLease::uid) != Some(lease.uid()) {
            self.lease_gone(lease);
        }
        if let Some(now) = now {
            self.index.lock().learn_lease(now, (self.now)());
        }
        Ok(())
    }
}
