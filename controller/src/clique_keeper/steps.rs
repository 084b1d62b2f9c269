//! The requests, one after the other.

use std::time::Duration;

use compute_domain_api::GROUP_CHANNELS;
use compute_domain_core::{Clique, LabelWrite, PoolStep};
use imex_runtime::error_chain;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::Run;
use crate::api_client::RequestError;
use crate::api_client::clique_labels::Labelled;

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

    /// A ComputeDomain keeps its channel for as long as it exists: one of a group's must not be given
    /// out a second time.
    async fn find_domains(&mut self, clique: &Clique) -> Result<(), RequestError> {
        let found = self
            .keeper
            .api
            .domains_with_channels(&GROUP_CHANNELS)
            .await?;
        let now = Instant::now().into_std();
        self.pools.set_may_create(found.is_empty(), clique, now);
        if found.is_empty() {
            self.groups.set_met();
        } else {
            self.groups.set_unmet(&format!(
                "no claim of a group can be allocated while ComputeDomains have channels of groups ({} to {}): {}, ...; delete these, and create them again",
                GROUP_CHANNELS.start(),
                GROUP_CHANNELS.end(),
                found.join(", ")
            ));
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
