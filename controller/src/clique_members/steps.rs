//! Sends the requests, one after the other.

use std::time::Duration;

use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::driver_managed::DRIVER_MANAGED_LABEL;
use compute_domain_core::{Clique, MemberStep, UnplacedNode};
use dra_common::error_chain;
use kube::ResourceExt as _;
use kube::core::Status;
use tokio::time::Instant;
use tracing::field::display;
use tracing::{debug, warn};

use super::Run;
use crate::api_client::RequestError;
use crate::references::{clique_reference, node_reference};
use crate::refusals::refusal_in;

/// Pause between two requests: at most 50 per second.
pub(super) const PACE: Duration = Duration::from_millis(20);

/// Pause after a failed request: the API server may be unavailable.
const PAUSE: Duration = Duration::from_secs(2);

/// Pause after the API server has dropped fields: the administrator must apply the CRD.
const CRD_PAUSE: Duration = Duration::from_secs(20);

impl Run<'_> {
    /// Sends the next request, if one is needed.
    pub(super) async fn write_next(&mut self) {
        let next = self.members.next(Instant::now().into_std());
        self.report_unplaced();
        self.report_rollout();
        let Some((clique, step)) = next else {
            self.keeper.metrics.set_counts(&self.members.counts());
            return;
        };
        let clique = clique.as_ref();
        if clique.is_some_and(|clique| self.unreadable.contains(clique)) {
            return;
        }
        let made = match clique {
            Some(clique) => self.make(clique, &step).await,
            // Without a clique, a node's daemon is only replaced.
            None => self.replace_daemon(None, &step).await,
        };
        let pause = match made {
            Ok(pause) => pause,
            Err(err) => {
                let now = Instant::now().into_std();
                self.members.failed(clique, &step, now);
                self.failed(clique, &step, &err)
            }
        };
        self.not_before = Instant::now() + pause;
        self.keeper.metrics.set_counts(&self.members.counts());
        self.report_rollout();
    }

    /// Returns the pause before the next request.
    async fn make(&mut self, clique: &Clique, step: &MemberStep) -> Result<Duration, RequestError> {
        let api = &self.keeper.api;
        match step {
            MemberStep::FindNode { node } => {
                let uid = api.node_uid(node).await?;
                let now = Instant::now().into_std();
                self.members.set_node_uid(clique, node, uid.as_deref(), now);
                return Ok(PACE);
            }
            MemberStep::ReadClaims { node, pod, since } => {
                return self.read_claims(clique, (node, pod), *since).await;
            }
            MemberStep::DeletePod { .. } => return self.replace_daemon(Some(clique), step).await,
            MemberStep::Create(wanted) => {
                let written = match api.create_clique(wanted).await {
                    Err(err) if err.is_already_exists() => return self.adopt(clique).await,
                    created => created?,
                };
                return Ok(self.written(clique, wanted, &written));
            }
            MemberStep::Replace(wanted) => {
                let written = api.replace_clique(wanted).await?;
                return Ok(self.written(clique, wanted, &written));
            }
            MemberStep::Delete {
                uid,
                resource_version,
            } => {
                api.delete_clique(clique, uid, resource_version).await?;
                let now = Instant::now().into_std();
                self.members.remove_clique(clique, uid, now);
            }
        }
        self.keeper.metrics.wrote("written");
        Ok(PACE)
    }

    /// An object exists that the watch has not listed: it lost the label, or the response to its creation was lost.
    /// Names of cliques in this namespace belong to this controller, so it adopts the object and restores the label.
    // req: DM-7
    async fn adopt(&mut self, clique: &Clique) -> Result<Duration, RequestError> {
        let found = self.keeper.api.clique(clique).await?;
        let now = Instant::now().into_std();
        match found {
            Some(object) => {
                if !object.labels().contains_key(DRIVER_MANAGED_LABEL) {
                    warn!(%clique, "the ComputeDomainClique has lost its label {DRIVER_MANAGED_LABEL}; restoring the label");
                }
                self.members.apply_clique(&object, now);
            }
            None => self.members.schedule_look_up(clique, now),
        }
        Ok(PACE)
    }

    /// Handles a written object. A CRD without our fields makes the API server drop them, and daemons lack their node
    /// list.
    fn written(
        &mut self,
        clique: &Clique,
        wanted: &ComputeDomainClique,
        written: &ComputeDomainClique,
    ) -> Duration {
        self.keeper.metrics.wrote("written");
        let now = Instant::now().into_std();
        self.members.apply_clique(written, now);
        if wanted.spec == written.spec {
            if !self.crd.is_met() {
                self.crd.set_met();
            }
            return PACE;
        }
        self.crd.set_unmet(
            "no IMEX daemon can start: the CustomResourceDefinition of ComputeDomainCliques on the API server is too old; apply the CustomResourceDefinition of this chart (crd/), which has the fields listLength, nameScheme, nodeUID, podUID, hostIP, absentSince, draining, freed, memberCount and readyCount",
        );
        // No watch reports that the CRD was applied.
        self.members.schedule_look_up(clique, now + CRD_PAUSE);
        CRD_PAUSE
    }

    /// Returns the pause before the next request.
    fn failed(
        &mut self,
        clique: Option<&Clique>,
        step: &MemberStep,
        err: &RequestError,
    ) -> Duration {
        let clique = match (step, clique) {
            (MemberStep::ReadClaims { .. } | MemberStep::DeletePod { .. }, _) | (_, None) => {
                let clique = clique.map(display);
                warn!(
                    clique,
                    error = error_chain(err),
                    "cannot replace the IMEX daemon yet; retrying"
                );
                return PAUSE;
            }
            (MemberStep::FindNode { .. }, Some(clique)) => {
                warn!(%clique, error = error_chain(err), "cannot read the Node; retrying");
                return PAUSE;
            }
            (_, Some(clique)) => clique,
        };
        if err.status().is_some_and(Status::is_conflict) {
            // The watch delivers the new state.
            debug!(%clique, "conflict: another client changed the ComputeDomainClique");
            self.keeper.metrics.wrote("conflict");
            return PACE;
        }
        self.keeper.metrics.wrote("failed");
        warn!(%clique, error = error_chain(err), "cannot write the members of the clique; retrying");
        if err.status().is_none() {
            return PAUSE;
        }
        // The API server is available, so other cliques need not wait.
        let failures = self.members.refused(clique, Instant::now().into_std());
        if let Some(refusal) = refusal_in(err, failures) {
            self.report_refusal(clique, step, &refusal);
        }
        PACE
    }

    // req: DM-8
    fn report_refusal(&self, clique: &Clique, step: &MemberStep, refusal: &str) {
        self.keeper.nodes.set_refusal(clique, Some(refusal));
        let uid = match step {
            MemberStep::Create(object) | MemberStep::Replace(object) => object.uid(),
            _ => None,
        };
        let object = clique_reference(&self.keeper.namespace, clique, &uid.unwrap_or_default());
        let note = format!(
            "the API server refuses ComputeDomainClique {clique}, which the IMEX daemons of its nodes need: {refusal}"
        );
        let events = &self.keeper.events;
        events.warning(&object, "CliqueRefused", "Write", &note);
    }

    // req: DM-6
    fn report_unplaced(&mut self) {
        for unplaced in self.members.take_unplaced() {
            let UnplacedNode {
                node,
                clique,
                max_nodes,
                object_uid,
            } = unplaced;
            let note = format!(
                "node {node} prepares no claims of ComputeDomains: the IMEX domain of its NVLink clique {clique} already has {max_nodes} members; increase resources.computeDomains.imex.maxNodesPerIMEXDomain (--max-nodes-per-imex-domain, MAX_NODES_PER_IMEX_DOMAIN) and restart all daemons of the clique, or remove nodes from the clique"
            );
            warn!(%node, %clique, "{note}");
            let events = &self.keeper.events;
            let reason = "TooManyNodesInClique";
            events.warning(&node_reference(&node), reason, "Join", &note);
            if let Some(uid) = object_uid {
                let object = clique_reference(&self.keeper.namespace, &clique, &uid);
                events.warning(&object, reason, "Join", &note);
            }
        }
    }
}
