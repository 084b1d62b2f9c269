//! Which templates the API server does not let us create, and why.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_core::{Key, Rejection};
use imex_runtime::error_chain;
use kube::core::Status;
use tokio::time::Instant;

use crate::api_client::RequestError;
use crate::backoff::{delay_after, jittered};

/// After how many failures in a row an error that may pass is reported as a refusal.
const PASSING_FAILURES: u32 = 3;

/// The shortest pause before a refused request is made again: nothing tells us when a quota, a policy
/// or a webhook changes. It doubles up to a minute.
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// The longest.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The templates that cannot be created at the moment, by the UID of their ComputeDomain.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_key: Mutex<HashMap<Key, Refusal>>,
}

#[derive(Clone, Debug)]
struct Refusal {
    rejection: Rejection,
    namespace: Box<str>,
    count: u32,
    retry_at: Instant,
}

impl Refusals {
    /// Why the template cannot be created; `None` if it has not been tried, or is to be tried again.
    pub(crate) fn current(&self, key: &Key) -> Option<Rejection> {
        let refusals = self.lock();
        let refusal = refusals.get(key)?;
        (Instant::now() < refusal.retry_at).then(|| refusal.rejection.clone())
    }

    /// When the template is to be tried again.
    pub(crate) fn retry_at(&self, key: &Key) -> Option<Instant> {
        Some(self.lock().get(key)?.retry_at)
    }

    /// Whether the last attempt found the name taken: then reading is enough to see whether it
    /// still is.
    pub(crate) fn is_name_taken(&self, key: &Key) -> bool {
        self.is_last(key, |it| matches!(it, Rejection::NameTaken { .. }))
    }

    /// Whether the last template was changed by somebody when it was created.
    pub(crate) fn is_changed(&self, key: &Key) -> bool {
        self.is_last(key, |it| matches!(it, Rejection::TemplateChanged { .. }))
    }

    fn is_last(&self, key: &Key, is: impl Fn(&Rejection) -> bool) -> bool {
        let refusals = self.lock();
        refusals.get(key).is_some_and(|last| is(&last.rejection))
    }

    /// The template could not be created.
    pub(crate) fn record(&self, key: &Key, namespace: &str, rejection: Rejection) {
        let mut refusals = self.lock();
        let count = refusals.get(key).map_or(0, |before| before.count) + 1;
        let delay = (delay_after(count) * 8).clamp(FIRST_RETRY, LAST_RETRY);
        let refusal = Refusal {
            rejection,
            namespace: namespace.into(),
            count,
            retry_at: Instant::now() + jittered(delay),
        };
        refusals.insert(key.clone(), refusal);
    }

    /// The template is there as it should be, or the ComputeDomain is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// A template of this name is gone: those that want it are to be tried again. Returns their keys.
    pub(crate) fn name_is_free(&self, namespace: &str, name: &str) -> Vec<Key> {
        self.retry_names(|refusal, taken| taken == name && *refusal.namespace == *namespace)
    }

    /// Any name may have become free unseen. Returns the keys that are to be tried again.
    pub(crate) fn names_may_be_free(&self) -> Vec<Key> {
        self.retry_names(|_, _| true)
    }

    fn retry_names(&self, is_free: impl Fn(&Refusal, &str) -> bool) -> Vec<Key> {
        let now = Instant::now();
        let mut keys = Vec::new();
        for (key, refusal) in &mut *self.lock() {
            let Rejection::NameTaken { name, .. } = &refusal.rejection else {
                continue;
            };
            if is_free(refusal, name) {
                refusal.retry_at = now;
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Whether a ComputeDomain waits for a name.
    pub(crate) fn any_name_taken(&self) -> bool {
        let refusals = self.lock();
        let mut rejections = refusals.values().map(|refusal| &refusal.rejection);
        rejections.any(|rejection| matches!(rejection, Rejection::NameTaken { .. }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Refusal>> {
        // A panic elsewhere cannot leave the map half-changed.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the API server says if it refuses the request itself, rather than failing to answer. `failures`
/// is how often it has failed in a row: a webhook that is down looks like a server that is.
pub(crate) fn refusal_in(error: &RequestError, failures: u32) -> Option<String> {
    let lasting = |status: &Status| matches!(status.code, 400 | 403 | 405 | 413 | 422);
    match error.status() {
        Some(status) if lasting(status) || failures >= PASSING_FAILURES => {
            Some(status.message.clone())
        }
        None if failures >= PASSING_FAILURES => Some(error_chain(error)),
        _ => None,
    }
}

/// Whether nothing can be created in the namespace because it is being deleted.
pub(crate) fn is_namespace_terminating(error: &RequestError) -> bool {
    let causes = error
        .status()
        .and_then(|status| status.details.as_ref())
        .map(|details| &details.causes);
    let terminating = |reason: &str| reason == "NamespaceTerminating";
    causes.is_some_and(|causes| causes.iter().any(|cause| terminating(&cause.reason)))
}
