//! Cache of how the API server stores the controller's templates.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use compute_domain_core::{Content, Domain};
use tokio::time::Instant;

/// How long a result is valid. Another version of the API server may drop other fields; then unnecessary repairs
/// continue for this long at most.
const VALID: Duration = Duration::from_secs(60);

/// How the API server stores our templates, by allocation mode: an older one drops unknown fields. A template that
/// differs from what was sent is compared with this; otherwise it would be repaired forever.
#[derive(Debug, Default)]
pub(crate) struct StoredContents {
    by_mode: Mutex<HashMap<String, (Content, Instant)>>,
}

impl StoredContents {
    /// The stored content for a domain with this allocation mode; `None` if it must be requested.
    pub(crate) fn get(&self, domain: &Domain) -> Option<Content> {
        let by_mode = self.by_mode.lock().unwrap_or_else(PoisonError::into_inner);
        let (content, at) = by_mode.get(domain.allocation_mode()?.as_str())?;
        (at.elapsed() < VALID).then_some(*content)
    }

    /// Stores the API server's answer.
    pub(crate) fn set(&self, domain: &Domain, content: Content) {
        let Some(mode) = domain.allocation_mode() else {
            return;
        };
        let mut by_mode = self.by_mode.lock().unwrap_or_else(PoisonError::into_inner);
        by_mode.insert(mode.as_str().to_owned(), (content, Instant::now()));
    }
}
