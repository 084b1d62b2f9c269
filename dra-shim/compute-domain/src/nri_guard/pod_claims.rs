//! Looks up the claims of a pod on the API server.
//!
//! A record has the `reservedFor` of the claim's first Prepare on the node: kubelet does not call
//! again for further pods of the claim, and for a group `reservedFor` names the group. A pod that
//! names the claim is one that the claim is reserved for: kubelet checks that before it creates any
//! of the pod's containers.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use compute_domain_node::{NodeClaims, has_unique_name};
use dra_checkpoint::ClaimRef;
use node_claims::Presence;
use nri_plugin::api::PodSandbox;
use plugin_parts::{ClaimLookup, PodLookup};

/// How many pods are cached: several times kubelet's limit on a node (110).
const MAX_REMEMBERED: usize = 512;

/// Looks pods up, each once. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PodClaims {
    pods: PodLookup,
    claims: ClaimLookup,
    known: Arc<Mutex<Known>>,
}

/// The cache, by pod UID. A pod's claims do not change once it is on a node.
#[derive(Default)]
struct Known {
    names: HashMap<String, Arc<BTreeSet<String>>>,
    oldest_first: VecDeque<String>,
}

// === impl PodClaims ===

impl PodClaims {
    pub(crate) fn new(pods: PodLookup, claims: ClaimLookup) -> Self {
        Self {
            pods,
            claims,
            known: Arc::default(),
        }
    }

    /// Whether the pod has one of these recorded claims of its namespace. One GET for a pod that is
    /// not cached, and one more for a name that two recorded claims have.
    // req: NRI-14
    pub(super) async fn any_is_of(
        &self,
        pod: &PodSandbox,
        candidates: &[ClaimRef],
        recorded: &NodeClaims,
    ) -> Result<bool, kube::Error> {
        let named = self.names(pod).await?;
        for claim in candidates {
            if named.contains(&claim.name)
                && (has_unique_name(&recorded.view(), claim)
                    || self.claims.presence(claim).await == Presence::Present)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn names(&self, pod: &PodSandbox) -> Result<Arc<BTreeSet<String>>, kube::Error> {
        if let Some(names) = self.known().names.get(&pod.uid) {
            return Ok(Arc::clone(names));
        }
        let names = self
            .pods
            .claims_of(&pod.namespace, &pod.name, &pod.uid)
            .await?;
        // Not cached: the pod may be found a moment later.
        let Some(names) = names.map(Arc::new) else {
            return Ok(Arc::default());
        };
        self.known().remember(&pod.uid, &names);
        Ok(names)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Known ===

impl Known {
    fn remember(&mut self, uid: &str, names: &Arc<BTreeSet<String>>) {
        if self
            .names
            .insert(uid.to_owned(), Arc::clone(names))
            .is_some()
        {
            return;
        }
        self.oldest_first.push_back(uid.to_owned());
        if self.oldest_first.len() > MAX_REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}
