//! What the API server makes of the templates that we create.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use compute_domain_core::{Content, Domain};
use tokio::time::Instant;

/// For how long an answer counts. The API server may be replaced by one of another version, which
/// leaves out other fields: then repairs go on for this long at most.
const VALID: Duration = Duration::from_secs(60);

/// What the API server stores for a template of ours, by allocation mode: an older one leaves out
/// fields that it does not know. A template that differs from what we send is compared with it, or it
/// would be repaired for ever.
#[derive(Debug, Default)]
pub(crate) struct StoredContents {
    by_mode: Mutex<HashMap<String, (Content, Instant)>>,
}

impl StoredContents {
    /// What is stored for a domain with this allocation mode; `None` if the API server has to be
    /// asked.
    pub(crate) fn get(&self, domain: &Domain) -> Option<Content> {
        let by_mode = self.by_mode.lock().unwrap_or_else(PoisonError::into_inner);
        let (content, at) = by_mode.get(domain.allocation_mode()?.as_str())?;
        (at.elapsed() < VALID).then_some(*content)
    }

    /// The API server has told.
    pub(crate) fn set(&self, domain: &Domain, content: Content) {
        let Some(mode) = domain.allocation_mode() else {
            return;
        };
        let mut by_mode = self.by_mode.lock().unwrap_or_else(PoisonError::into_inner);
        by_mode.insert(mode.as_str().to_owned(), (content, Instant::now()));
    }
}
