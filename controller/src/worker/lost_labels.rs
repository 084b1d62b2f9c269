//! Restores lost labels of templates before anything else is decided about them. Without the label, no watch has the
//! template, and its finalizer would stay forever.

use std::collections::HashMap;
use std::time::Duration;

use compute_domain_core::{Key, TemplateRef};
use dra_common::error_chain;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api_client::{ApiClient, RequestError};
use crate::backoff::Backoff;
use crate::queue::Queue;
use crate::wake::wake_at;

/// Number of templates checked at the same time. Labels are lost only by manual edits.
const CONCURRENCY: usize = 2;

/// When a failed search is retried.
const SEARCH_RETRY: Duration = Duration::from_secs(30);

/// The templates that may have lost their label.
#[derive(Default)]
pub(super) struct LostLabels {
    /// Keys are `NAMESPACE/NAME`.
    queue: Queue,
    backoff: Backoff,
    /// For each key, the domain to reconcile if the label cannot be restored.
    domains: HashMap<Key, Key>,
    running: usize,
    /// When to search for templates that lost their label while no controller ran; `None` once they are known.
    search_at: Option<Instant>,
}

/// The result of a job.
pub(super) enum LabelJobResult {
    /// Templates without label but with our finalizer.
    Searched(Result<Vec<TemplateRef>, RequestError>),
    /// Whether the label was restored. If not, the template is in order or not ours.
    Looked(Key, Result<bool, RequestError>),
}

impl LostLabels {
    /// Adds a template of the domain `key` that may have lost its label.
    pub(super) fn add(&mut self, template: &TemplateRef, key: Option<Key>) {
        let place = place(template);
        self.queue.add(&place, &template.namespace);
        if let Some(key) = key {
            self.domains.insert(place, key);
        }
    }

    /// Starts the search for templates that lost their label earlier.
    pub(super) fn search(&mut self) {
        self.search_at = Some(Instant::now());
    }

    /// The next job, if one is due.
    pub(super) fn next<'a>(&mut self, api: &'a ApiClient) -> Option<BoxFuture<'a, LabelJobResult>> {
        let now = Instant::now();
        if self.search_at.take_if(|at| *at <= now).is_some() {
            return Some(async { LabelJobResult::Searched(api.find_unlabelled().await) }.boxed());
        }
        if self.running >= CONCURRENCY {
            return None;
        }
        let place = self.queue.pop(now)?;
        self.running += 1;
        Some(
            async move {
                let restored = restore(api, &place).await;
                LabelJobResult::Looked(place, restored)
            }
            .boxed(),
        )
    }

    /// Handles a job's result. Returns the domain to reconcile if its template's label was not restored.
    pub(super) fn finish(&mut self, done: LabelJobResult) -> Option<Key> {
        match done {
            LabelJobResult::Searched(Ok(templates)) => {
                for template in templates {
                    self.add(&template, None);
                }
                None
            }
            LabelJobResult::Searched(Err(err)) => {
                let error = error_chain(&err);
                warn!(
                    error,
                    "cannot search for templates that have lost their label; retrying"
                );
                self.search_at = Some(Instant::now() + SEARCH_RETRY);
                None
            }
            LabelJobResult::Looked(place, restored) => {
                self.running -= 1;
                self.label_checked(&place, restored)
            }
        }
    }

    fn label_checked(&mut self, place: &Key, restored: Result<bool, RequestError>) -> Option<Key> {
        let domain = self.domains.remove(place);
        match restored {
            Ok(restored) => {
                self.backoff.reset(place);
                self.queue.done(place, None);
                domain.filter(|_| !restored)
            }
            Err(err) => {
                let (attempt, delay) = self.backoff.record_failure(place, false);
                let error = error_chain(&err);
                warn!(template = &**place, attempt, retry_in = ?delay, error, "cannot restore the label; retrying");
                self.queue.done(place, Some(Instant::now() + delay));
                domain
            }
        }
    }

    /// Returns when a job is due; never, if there is none.
    pub(super) async fn wait(&self) {
        tokio::select! {
            () = wake_at(self.search_at) => {}
            () = self.queue.wait(), if self.running < CONCURRENCY => {}
        }
    }
}

fn place(template: &TemplateRef) -> Key {
    format!("{}/{}", template.namespace, template.name).into()
}

/// Reads the template and restores its label if it is wrong. Returns whether it was.
async fn restore(api: &ApiClient, place: &str) -> Result<bool, RequestError> {
    let (namespace, name) = place.split_once('/').unwrap_or_default();
    let Some(template) = api.get_template(namespace, name).await? else {
        return Ok(false);
    };
    let restored = api.restore_label(&template).await?.is_some();
    if restored {
        info!(template = place, "label restored");
    }
    Ok(restored)
}
