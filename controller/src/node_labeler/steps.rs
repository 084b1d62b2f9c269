//! Sends the requests, one after the other.

use std::time::Duration;

use compute_domain_api::GROUP_CHANNELS;
use compute_domain_core::{Clique, GroupLease, LabelWrite, PoolStep, channel_of_lease};
use dra_common::error_chain;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::Run;
use crate::api_client::clique_labels::Labelled;
use crate::api_client::{ApiClient, RequestError};
use crate::reports::enumerate;

/// Pause between two requests: at most 50 per second.
const PACE: Duration = Duration::from_millis(20);

/// Pause after a failed request: the API server may be unavailable.
const PAUSE: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Sends the next request, if one is needed.
    pub(super) async fn write_next(&mut self) {
        let now = Instant::now().into_std();
        let made = if let Some(write) = self.nodes.next_label(now) {
            self.write_label(write).await
        } else if let Some((clique, step)) = self.pools.next(now) {
            let made = self.make_step(&clique, step).await;
            self.keeper.metrics.set_pools(self.pools.count());
            made.inspect_err(|_| self.pools.failed(&clique, Instant::now().into_std()))
        } else {
            return;
        };
        let pause = match made {
            Ok(()) => PACE,
            Err(err) => {
                warn!(error = error_chain(&err), "request failed; retrying");
                PAUSE
            }
        };
        self.not_before = Instant::now() + pause;
    }

    async fn write_label(&mut self, write: LabelWrite) -> Result<(), RequestError> {
        let written = self.keeper.api.apply_clique_label(&write).await;
        let now = Instant::now().into_std();
        let LabelWrite { node, clique, .. } = &write;
        let outcome = match written {
            Ok(Labelled::Written) => {
                debug!(node, clique = clique.as_deref(), "node label written");
                "written"
            }
            Ok(Labelled::OwnedByOthers) => {
                debug!(
                    node,
                    clique = clique.as_deref(),
                    "another field manager owns the node's label; the label is left unchanged"
                );
                if let (Some(clique), true) = (clique, self.pools.are_wanted()) {
                    self.keeper.report_foreign_label(node, clique);
                }
                self.nodes.owned_by_others(write, now);
                "owned-by-others"
            }
            Err(err) => {
                self.nodes.failed(write, now);
                self.keeper.metrics.labelled("failed");
                return Err(err);
            }
        };
        self.keeper.metrics.labelled(outcome);
        Ok(())
    }

    async fn make_step(&mut self, clique: &Clique, step: PoolStep) -> Result<(), RequestError> {
        let api = &self.keeper.api;
        match step {
            PoolStep::FindDomains => self.find_domains(clique).await?,
            PoolStep::FindClaims => self.find_claims().await?,
            PoolStep::Create(slice) => {
                let created = api.create_slice(&slice).await?;
                self.pools.apply(&created, Instant::now().into_std());
            }
            PoolStep::Replace(slice) => {
                let replaced = api.replace_slice(&slice).await?;
                self.pools.apply(&replaced, Instant::now().into_std());
            }
            PoolStep::Delete { name, uid } => {
                api.delete_slice(&name, &uid).await?;
                let now = Instant::now().into_std();
                self.pools.deleted(clique, &uid, now);
            }
        }
        Ok(())
    }

    /// Checks whether `ComputeDomains` have channels of groups. A ComputeDomain keeps its channel while it exists,
    /// and the channel cools down afterwards: a channel of a group must not be assigned a second time. The Lease is
    /// taken first; from then on, `ComputeDomains` are not assigned channels of groups.
    async fn find_domains(&mut self, clique: &Clique) -> Result<(), RequestError> {
        let api = &self.keeper.api;
        take_group_lease(api).await?;
        let domains = api.domains_with_channels(&GROUP_CHANNELS).await?;
        let leases = if self.keeper.isolates {
            api.channel_lease_names().await?
        } else {
            Vec::new()
        };
        let is_of_group = |name: &String| {
            let channel = channel_of_lease(name);
            channel.is_some_and(|channel| GROUP_CHANNELS.contains(&channel))
        };
        let leases: Vec<_> = leases.into_iter().filter(is_of_group).collect();
        let now = Instant::now().into_std();
        let is_free = domains.is_empty() && leases.is_empty();
        self.pools.set_may_create(is_free, clique, now);
        if is_free {
            self.groups.set_met();
        } else {
            self.groups.set_unmet(&blockers_message(&domains, &leases));
        }
        Ok(())
    }

    async fn find_claims(&mut self) -> Result<(), RequestError> {
        let in_use = self.keeper.api.cliques_in_use().await?;
        let kept = self.pools.set_in_use(&in_use, Instant::now().into_std());
        for clique in kept {
            info!(
                %clique,
                wanted = self.pools.are_wanted(),
                "the pool is no longer needed (the clique has no nodes, or group claims are disabled), but claims are allocated from it; checking again in ten minutes"
            );
        }
        Ok(())
    }
}

/// Reserves the channels of groups, so that `ComputeDomains` are no longer assigned them.
async fn take_group_lease(api: &ApiClient) -> Result<(), RequestError> {
    let Some(lease) = api.get_group_lease().await? else {
        let created = api
            .create_lease(&GroupLease::created(Timestamp::now()))
            .await;
        return match created {
            Err(err) if !err.is_already_exists() => Err(err),
            _ => Ok(()),
        };
    };
    match lease.taken_back() {
        Some(patch) => api.change_group_lease(patch).await,
        None => Ok(()),
    }
}

/// Why no pool can be created yet.
fn blockers_message(domains: &[String], leases: &[String]) -> String {
    let (first, last) = (GROUP_CHANNELS.start(), GROUP_CHANNELS.end());
    if domains.is_empty() {
        let leases = enumerate(leases);
        return format!(
            "group claims cannot be allocated yet: ComputeDomains have used some of the channels {first} to {last}, and these channels are still cooling down ({leases}); wait until 10 minutes after the last claim of these ComputeDomains is deleted"
        );
    }
    let domains = enumerate(domains);
    format!(
        "group claims cannot be allocated while ComputeDomains have any of the channels {first} to {last}: {domains}; delete these ComputeDomains and create them again"
    )
}
