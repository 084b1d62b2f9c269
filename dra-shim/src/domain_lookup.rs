//! Whether a claim's ComputeDomain exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_api::DomainUid;
use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::DOMAIN_NAME_ANNOTATION;
use dra_kubelet::{Claim, ClaimError};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use imex_runtime::{Part, error_chain};
use kube::api::GetParams;
use kube::core::{Request, Status};
use kube::{Client, Resource as _};
use serde::Deserialize;
use tokio::time::Instant;

use crate::list_pages::for_each_object;
use crate::path_segment::is_path_segment;

/// How many domains are remembered. A node has claims of a few at a time; a thousand
/// take 100 KiB.
const MAX_REMEMBERED: usize = 1000;

/// How long a no is remembered: for all attempts of one call of kubelet, which may find
/// the device in use all the while. kubelet repeats a call after a minute.
const MISSING_FOR: Duration = Duration::from_secs(60);

/// Asks the API server whether domains exist: once per domain and process, as long
/// as the answer is yes. UIDs are never used again, so a domain that is deleted later
/// is the only thing that this misses; its claims go with it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DomainLookup {
    client: Client,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    /// Namespace and UID of domains that exist.
    existing: BTreeSet<(String, DomainUid)>,
    /// When it was answered that a domain does not exist.
    missing: BTreeMap<Question, Instant>,
    /// The requests under way: claims of one domain share one.
    under_way: BTreeMap<Question, WeakShared<Lookup>>,
}

type Lookup = BoxFuture<'static, Result<bool, ClaimError>>;

/// What is asked. The name is a part of it, since a claim may carry a wrong one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    namespace: String,
    uid: DomainUid,
    name: Option<String>,
}

/// The part of a ComputeDomain that is read.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

// === impl DomainLookup ===

impl DomainLookup {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            memory: Arc::default(),
        }
    }

    /// Whether the domain with this UID is in the claim's namespace: one GET by the
    /// name that the claim's annotation gives, or, without it (a claim of the Go
    /// driver's template), a list of the namespace, since the API server cannot
    /// select by UID.
    ///
    /// # Errors
    /// The API server has not said whether it exists. Try again.
    pub(crate) async fn exists(&self, claim: &Claim, uid: &DomainUid) -> Result<bool, ClaimError> {
        let name = claim.annotations.get(DOMAIN_NAME_ANNOTATION);
        let question = Question {
            namespace: claim.id.namespace.clone(),
            uid: uid.clone(),
            name: name.filter(|name| is_path_segment(name)).cloned(),
        };
        let known = self.memory().recall(&question);
        match known {
            Some(exists) => Ok(exists),
            None => self.begin_or_join(question).await,
        }
    }

    fn begin_or_join(&self, question: Question) -> Shared<Lookup> {
        let mut memory = self.memory();
        let under_way = memory.under_way.get(&question);
        if let Some(lookup) = under_way.and_then(WeakShared::upgrade) {
            return lookup;
        }
        let lookup = self.clone().ask(question.clone()).boxed().shared();
        // What nobody waits for any more is over.
        memory
            .under_way
            .retain(|_, other| other.upgrade().is_some());
        if let Some(weak) = lookup.downgrade() {
            memory.under_way.insert(question, weak);
        }
        lookup
    }

    async fn ask(self, question: Question) -> Result<bool, ClaimError> {
        let found = match &question.name {
            _ if !is_path_segment(&question.namespace) => Ok(false),
            Some(name) => self.get(&question, name).await,
            None => self.search(&question).await,
        };
        let exists = found.map_err(|error| lookup_failed(&error))?;
        self.memory().remember(question, exists);
        Ok(exists)
    }

    async fn get(&self, question: &Question, name: &str) -> Result<bool, kube::Error> {
        let path = ComputeDomain::url_path(&(), Some(&question.namespace));
        let request = Request::new(path)
            .get_metadata(name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match self.client.request::<Object>(request).await {
            Ok(found) => Ok(found.metadata.uid == question.uid.as_str()),
            Err(kube::Error::Api(status)) if says_gone(&status, name) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn search(&self, question: &Question) -> Result<bool, kube::Error> {
        let path = ComputeDomain::url_path(&(), Some(&question.namespace));
        let mut exists = false;
        let visit = |found: Object| {
            exists = found.metadata.uid == question.uid.as_str();
            !exists
        };
        for_each_object(&self.client, &path, Part::Metadata, visit).await?;
        Ok(exists)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Memory ===

impl Memory {
    fn recall(&self, question: &Question) -> Option<bool> {
        if self.existing.contains(&question.key()) {
            return Some(true);
        }
        let missing = self.missing.get(question);
        missing
            .is_some_and(|answered| answered.elapsed() < MISSING_FOR)
            .then_some(false)
    }

    fn remember(&mut self, question: Question, exists: bool) {
        if self.existing.len() + self.missing.len() >= MAX_REMEMBERED {
            self.existing.clear();
            self.missing.clear();
        }
        if exists {
            self.existing.insert(question.key());
        } else {
            self.missing.insert(question, Instant::now());
        }
    }
}

// === impl Question ===

impl Question {
    fn key(&self) -> (String, DomainUid) {
        (self.namespace.clone(), self.uid.clone())
    }
}

/// Whether the API server says that the domain `name` does not exist. Any other 404
/// says that it does not serve domains, or comes from something in between.
fn says_gone(status: &Status, name: &str) -> bool {
    let is_about_it = status
        .details
        .as_ref()
        .is_some_and(|about| about.name == name && about.kind == ComputeDomain::plural(&()));
    status.reason == "NotFound" && is_about_it
}

/// One sentence for the pod's event.
fn lookup_failed(error: &kube::Error) -> ClaimError {
    let reason = match error {
        kube::Error::Api(status) if status.code == 404 => {
            "the API server does not serve ComputeDomains (HTTP 404); is the CRD installed?"
                .to_owned()
        }
        kube::Error::Api(status) if status.reason.is_empty() || status.details.is_none() => {
            format!("the API server responds HTTP {}", status.code)
        }
        kube::Error::Api(status) => status.message.clone(),
        error => error_chain(error),
    };
    ClaimError::retry(format_args!(
        "the ComputeDomain cannot be looked up: {reason}"
    ))
    .with_code("domain-lookup")
}

#[cfg(test)]
#[path = "domain_lookup_tests.rs"]
mod tests;
