//! Updates the cliques and nodes of domains from watches and lists of claims, and reports shared and split cliques.

use std::collections::BTreeSet;
use std::sync::Arc;

use compute_domain_api::names::CLAIM_REPORTER;
use compute_domain_core::{CliqueFinding, Domain, Key};
use dra_common::error_chain;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tracing::warn;

use super::claim_cliques::Listed;
use super::{Finished, Run};
use crate::reports::name;
use crate::waiting::is_allocated;

// === impl Run ===

impl<'a> Run<'a> {
    /// The watch of claims begins to list.
    pub(super) fn claims_list_started(&mut self) {
        self.cliques.set_watch_lists(true);
    }

    /// The watch has listed all claims. Deleted claims were not among them.
    pub(super) fn claims_listed(&mut self) {
        self.cliques.set_watch_lists(false);
        let mut known = self.worker.context.nodes.domains();
        known.extend(self.cliques.known.holders().cloned());
        for key in known {
            self.claim_gone(&key);
        }
    }

    /// The watch reports a claim of this domain.
    pub(super) fn claim_applied(&mut self, key: &Key, claim: &ObjectMeta) {
        let nodes = &self.worker.context.nodes;
        // A claim without a report may have had one before; one that is not allocated may have been.
        if is_reported(claim) || self.cliques.known.holds_any(key) {
            self.cliques.changed(key);
        }
        let has_changed = if is_allocated(claim) {
            // A node reports only claims whose allocation the watch has already reported.
            !is_reported(claim)
        } else {
            nodes.has_any(key)
        };
        if nodes.is_enabled() && has_changed {
            self.cliques.allocations_changed(key);
        }
    }

    /// A claim of this domain is deleted. After the last one, other domains must not be reported as sharing a clique
    /// with it.
    pub(super) fn claim_gone(&mut self, key: &Key) {
        let holds = self.cliques.known.holds_any(key);
        let has_nodes = self.worker.context.nodes.has_any(key);
        if self.domain_with_claims(key).is_none() {
            self.no_claims(key);
            return;
        }
        if holds {
            self.cliques.changed(key);
        }
        if has_nodes {
            self.cliques.allocations_changed(key);
        }
    }

    /// The domain is deleted: it has no name by which events could mention it.
    pub(super) fn domain_gone(&mut self, key: &Key) {
        self.no_claims(key);
    }

    /// The domain has no claims, or is deleted.
    fn no_claims(&mut self, key: &Key) {
        if self.cliques.known.holds_any(key) {
            self.set_cliques(key, BTreeSet::new());
        }
        let context = &self.worker.context;
        let domain = context.index.lock().domain(key);
        let says_nodes = domain.is_some_and(|domain| domain.reports_nodes());
        if context.nodes.forget_domain(key) || says_nodes {
            self.add([key]);
        }
    }

    /// The nodes of domains have changed: queues the domains, so that their status is updated.
    pub(super) fn nodes_changed(&mut self) {
        let due = self.worker.context.nodes.take_due();
        self.add(&due);
    }

    /// Lists the claims of domains with nodes in their status: a previous controller wrote them.
    pub(super) fn check_reported_nodes(&mut self) {
        if !self.worker.context.nodes.is_enabled() {
            return;
        }
        for key in self.worker.context.index.lock().with_nodes() {
            self.cliques.allocations_changed(&key);
        }
    }

    /// The next list of a domain's claims, if one is due.
    pub(super) fn next_list(&mut self) -> Option<BoxFuture<'a, Finished>> {
        loop {
            let key = self.cliques.pop()?;
            let Some(domain) = self.domain_with_claims(&key) else {
                self.no_claims(&key);
                continue;
            };
            self.cliques.start();
            let api = &self.worker.context.api;
            let list = async move {
                let seen = api.list_claims_of_domain(&domain).await;
                Finished::Cliques(Listed { key, seen })
            };
            return Some(list.boxed());
        }
    }

    /// The list of a domain's claims has succeeded or failed.
    pub(super) fn finish_list(&mut self, Listed { key, seen }: Listed) {
        self.cliques.finish(&key, seen.is_ok());
        match seen {
            // The domain may be deleted meanwhile.
            Ok(seen) if self.domain_with_claims(&key).is_some() => {
                self.set_cliques(&key, seen.cliques);
                if self.worker.context.nodes.set_domain(&key, seen.nodes) {
                    self.add([&key]);
                }
            }
            Ok(_) => {}
            Err(err) => {
                let (uid, error) = (&*key, error_chain(&err));
                warn!(
                    uid,
                    error,
                    "cannot list claims; cliques and nodes of the ComputeDomain are not known yet"
                );
            }
        }
    }

    /// Stores the cliques in which a domain holds claims, and reports findings to the domains concerned.
    fn set_cliques(&mut self, key: &Key, cliques: BTreeSet<Box<str>>) {
        // Nodes open the channel in the status, regardless of the present isolation.
        let is_isolated = self.has_own_channel(key);
        let known = &mut self.cliques.known;
        let findings = if is_isolated {
            known.set_isolated(key, cliques)
        } else {
            known.set(key, cliques)
        };
        let (shared, split) = (known.count_shared(), known.count_split());
        self.worker.metrics.set_cliques(shared, split);
        for (key, finding) in findings {
            self.report(&key, &finding);
        }
    }

    fn has_own_channel(&self, key: &Key) -> bool {
        let domain = self.worker.context.index.lock().domain(key);
        let channel = domain.and_then(|domain| domain.channel());
        channel.is_some_and(|channel| channel > 0)
    }

    fn report(&self, key: &Key, finding: &CliqueFinding) {
        let context = &self.worker.context;
        let Some(domain) = context.index.lock().domain(key) else {
            return;
        };
        match finding {
            CliqueFinding::Shared { cliques, with } => {
                let index = context.index.lock();
                let others = with.iter().filter_map(|key| index.domain(key));
                let mut others: Vec<_> = others.map(|domain| name(&domain)).collect();
                drop(index);
                others.sort();
                context.reports.clique_shared(&domain, cliques, &others);
            }
            CliqueFinding::Split { cliques } => context.reports.cliques_split(&domain, cliques),
        }
    }

    /// The domain, if it exists and has claims.
    fn domain_with_claims(&self, key: &Key) -> Option<Arc<Domain>> {
        let index = self.worker.context.index.lock();
        let domain = index.domain(key)?;
        let has_claims = index.claims(&domain).next().is_some();
        has_claims.then_some(domain)
    }
}

/// Whether a node has reported a device of the claim.
fn is_reported(claim: &ObjectMeta) -> bool {
    let mut entries = claim.managed_fields.iter().flatten();
    entries.any(|entry| entry.manager.as_deref() == Some(CLAIM_REPORTER))
}
