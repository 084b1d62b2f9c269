//! The requests, one after the other.

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

/// From the end of one request to the next: at most 50 a second.
const PACE: Duration = Duration::from_millis(20);

/// After a request that has failed: the API server may be away.
const PAUSE: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Makes the next request, if one is needed.
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
                warn!(error = error_chain(&err), "it is tried again");
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
                debug!(node, clique = clique.as_deref(), "the node has its label");
                "written"
            }
            Ok(Labelled::OwnedByOthers) => {
                debug!(
                    node,
                    clique = clique.as_deref(),
                    "somebody else owns the node's label, which stays as it is"
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

    /// A ComputeDomain keeps its channel for as long as it exists, and nobody gets it for a while after:
    /// one of a group's must not be given out a second time. First the Lease, from which on none of them
    /// is given to a ComputeDomain.
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
            self.groups.set_unmet(&in_the_way(&domains, &leases));
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
                "the pool of a clique without nodes, or of claims of groups that are switched off, stays: claims are allocated from it; it is looked at again in ten minutes"
            );
        }
        Ok(())
    }
}

/// From now on, `ComputeDomains` are given no channel of a group.
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
fn in_the_way(domains: &[String], leases: &[String]) -> String {
    let (first, last) = (GROUP_CHANNELS.start(), GROUP_CHANNELS.end());
    if domains.is_empty() {
        let leases = enumerate(leases);
        return format!(
            "no claim of a group can be allocated until the channels of groups ({first} to {last}) that ComputeDomains had have cooled down, 10 minutes after their last claim is gone: {leases}; wait"
        );
    }
    let domains = enumerate(domains);
    format!(
        "no claim of a group can be allocated while ComputeDomains have channels of groups ({first} to {last}): {domains}; delete these, and create them again"
    )
}
