//! Looks up whether a claim's ComputeDomain exists, and its channel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::{CHANNEL_NOT_CONFIRMED_REASON, DOMAIN_NAME_ANNOTATION};
use compute_domain_api::{DomainUid, Isolation};
use compute_domain_node::DomainState;
use daemon_runtime::Part;
use dra_common::error_chain;
use dra_kubelet::{Claim, ClaimError};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use imex_cdi::ChannelId;
use kube::core::Status;
use kube::{Client, Resource as _};
use plugin_parts::{for_each_object, get_object, is_path_segment};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

/// How many domains are cached. A node has claims of a few at a time; a thousand take
/// 100 KiB.
const MAX_REMEMBERED: usize = 1000;

/// How long a missing domain is cached: for all attempts of one kubelet call, which may
/// find the device in use throughout. kubelet repeats a call after a minute.
const MISSING_FOR: Duration = Duration::from_secs(60);

/// Looks domains up on the API server and caches existing ones for the life of the
/// process. UIDs are never reused and a channel never changes, so the cache only misses
/// a domain's deletion, and its claims are deleted with it. With channel isolation a
/// domain without a channel is not cached. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DomainLookup {
    client: Client,
    isolation: Isolation,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    /// States of existing domains, by namespace and UID.
    existing: BTreeMap<(String, DomainUid), DomainState>,
    /// When the API server reported that a domain does not exist.
    missing: BTreeMap<LookupKey, Instant>,
    /// Pending requests. Claims of one domain share one.
    under_way: BTreeMap<LookupKey, WeakShared<Lookup>>,
}

type Lookup = BoxFuture<'static, Result<DomainState, ClaimError>>;

/// The key of a look-up. It includes the name, because a claim may carry a wrong one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LookupKey {
    namespace: String,
    uid: DomainUid,
    name: Option<String>,
}

/// The fields of a ComputeDomain that are read.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    /// Untyped: what other writers store here cannot fail the read.
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

// === impl DomainLookup ===

impl DomainLookup {
    pub(crate) fn new(client: Client, isolation: Isolation) -> Self {
        Self {
            client,
            isolation,
            memory: Arc::default(),
        }
    }

    /// Whether the domain with this UID is in the claim's namespace, and its channel. One GET by
    /// the name in the claim's annotation. Without the annotation (a claim from the Go driver's
    /// template) the namespace is listed, because the API server cannot select by UID.
    ///
    /// # Errors
    /// The request failed. A retry may succeed.
    // req: NODE-7
    pub(crate) async fn state(
        &self,
        claim: &Claim,
        uid: &DomainUid,
    ) -> Result<DomainState, ClaimError> {
        let name = claim.annotations.get(DOMAIN_NAME_ANNOTATION);
        let question = LookupKey {
            namespace: claim.id.namespace.clone(),
            uid: uid.clone(),
            name: name.filter(|name| is_path_segment(name)).cloned(),
        };
        let known = self.memory().recall(&question);
        match known {
            Some(state) => Ok(state),
            None => self.begin_or_join(question).await,
        }
    }

    fn begin_or_join(&self, question: LookupKey) -> Shared<Lookup> {
        let mut memory = self.memory();
        let under_way = memory.under_way.get(&question);
        if let Some(lookup) = under_way.and_then(WeakShared::upgrade) {
            return lookup;
        }
        let lookup = self.clone().look_up(question.clone()).boxed().shared();
        // Drop requests without a waiter.
        memory
            .under_way
            .retain(|_, other| other.upgrade().is_some());
        if let Some(weak) = lookup.downgrade() {
            memory.under_way.insert(question, weak);
        }
        lookup
    }

    async fn look_up(self, question: LookupKey) -> Result<DomainState, ClaimError> {
        let found = match &question.name {
            _ if !is_path_segment(&question.namespace) => Ok(None),
            Some(name) => self.get(&question, name).await,
            None => self.search(&question).await,
        };
        let found = found.map_err(|error| lookup_failed(&error))?;
        let state = found.map_or(DomainState::Missing, |found| found.state());
        let may_change = match state {
            DomainState::Missing | DomainState::Assigned(_) => false,
            DomainState::Unassigned => self.isolation == Isolation::Channel,
            DomainState::NotConfirmed(_) => true,
        };
        if !may_change {
            self.memory().remember(question, state);
        }
        Ok(state)
    }

    async fn get(&self, question: &LookupKey, name: &str) -> Result<Option<Object>, kube::Error> {
        let path = ComputeDomain::url_path(&(), Some(&question.namespace));
        match get_object::<Object>(&self.client, path, name).await {
            Ok(found) => Ok(Some(found).filter(|found| found.is(question))),
            Err(kube::Error::Api(status)) if is_domain_not_found(&status, name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn search(&self, question: &LookupKey) -> Result<Option<Object>, kube::Error> {
        let path = ComputeDomain::url_path(&(), Some(&question.namespace));
        let mut domain = None;
        let visit = |found: Object| {
            domain = Some(found).filter(|found| found.is(question));
            domain.is_none()
        };
        for_each_object(&self.client, &path, Part::Whole, visit).await?;
        Ok(domain)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Memory ===

impl Memory {
    fn recall(&self, question: &LookupKey) -> Option<DomainState> {
        if let Some(state) = self.existing.get(&question.key()) {
            return Some(*state);
        }
        let missing = self.missing.get(question);
        missing
            .is_some_and(|answered| answered.elapsed() < MISSING_FOR)
            .then_some(DomainState::Missing)
    }

    fn remember(&mut self, question: LookupKey, state: DomainState) {
        if self.existing.len() + self.missing.len() >= MAX_REMEMBERED {
            self.existing.clear();
            self.missing.clear();
        }
        if state == DomainState::Missing {
            self.missing.insert(question, Instant::now());
        } else {
            self.existing.insert(question.key(), state);
        }
    }
}

// === impl Object ===

impl Object {
    fn is(&self, question: &LookupKey) -> bool {
        self.metadata.uid == question.uid.as_str()
    }

    /// The domain's state. A channel counts only once the controller has written a condition:
    /// before that, another writer has put it into the status.
    fn state(&self) -> DomainState {
        let channel = self.status.get("channel").and_then(Value::as_u64);
        let channel = channel.and_then(|number| u32::try_from(number).ok());
        let channel = channel.and_then(|number| ChannelId::new(number).ok());
        match (channel, self.ready_reason()) {
            (None, _) | (Some(_), None) => DomainState::Unassigned,
            (Some(channel), Some(CHANNEL_NOT_CONFIRMED_REASON)) => {
                DomainState::NotConfirmed(channel)
            }
            (Some(channel), Some(_)) => DomainState::Assigned(channel),
        }
    }

    /// The reason of the controller's `Ready` condition.
    fn ready_reason(&self) -> Option<&str> {
        let conditions = self.status.get("conditions")?.as_array()?;
        let mut conditions = conditions.iter();
        let ready = conditions.find(|condition| condition["type"] == "Ready")?;
        ready.get("reason")?.as_str()
    }
}

// === impl Question ===

impl LookupKey {
    fn key(&self) -> (String, DomainUid) {
        (self.namespace.clone(), self.uid.clone())
    }
}

/// Whether `status` means that the domain `name` does not exist. Any other 404 means that
/// the API server does not serve `ComputeDomains`, or comes from a proxy.
// req: NODE-8
fn is_domain_not_found(status: &Status, name: &str) -> bool {
    let is_about_it = status
        .details
        .as_ref()
        .is_some_and(|about| about.name == name && about.kind == ComputeDomain::plural(&()));
    status.reason == "NotFound" && is_about_it
}

/// The error for the pod's event, one sentence.
// req: NODE-8
fn lookup_failed(error: &kube::Error) -> ClaimError {
    let reason = match error {
        kube::Error::Api(status) if status.code == 404 => {
            "the API server does not serve ComputeDomains (HTTP 404); is the CRD installed?"
                .to_owned()
        }
        kube::Error::Api(status) if status.reason.is_empty() || status.details.is_none() => {
            format!("the API server responded with HTTP {}", status.code)
        }
        kube::Error::Api(status) => status.message.clone(),
        error => error_chain(error),
    };
    ClaimError::retry(format_args!("cannot look up the ComputeDomain: {reason}"))
        .with_code("domain-lookup")
}

#[cfg(test)]
#[path = "domain_lookup_tests.rs"]
mod tests;
