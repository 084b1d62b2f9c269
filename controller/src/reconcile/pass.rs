//! State of one reconcile between its requests.

use compute_domain_core::{Domain, Key, TemplateRef};

use crate::api_client::RequestError;

/// One reconcile.
pub(super) struct Pass<'a> {
    pub(super) key: &'a Key,
    /// Number of consecutive failures of the key.
    pub(super) failures: u32,
    /// Whether an object was read again because it differed from the cache. Only once: a repeated error has another
    /// cause, such as a policy that rejects the change.
    pub(super) refreshed: bool,
    /// UID of the domain's template that was deleted to be recreated. Only once, too.
    repaired: Option<Box<str>>,
    /// The first template that the API server refuses to delete or release. The others are handled first; then this
    /// is the result.
    pub(super) kept: Option<UndeletableTemplate>,
    /// Whether the deletion of the domain was already seen.
    deletion_seen: bool,
}

/// The API server refuses to delete this template or to remove our finalizer from it.
#[derive(Debug, thiserror::Error)]
#[error("{template}")]
pub(crate) struct UndeletableTemplate {
    pub(crate) template: TemplateRef,
    pub(crate) source: RequestError,
}

impl<'a> Pass<'a> {
    pub(super) fn new(key: &'a Key, failures: u32) -> Self {
        Self {
            key,
            failures,
            refreshed: false,
            repaired: None,
            kept: None,
            deletion_seen: false,
        }
    }

    /// Whether the domain's template must be recreated a second time: then another client changes what is created.
    pub(super) fn is_second_repair(&mut self, template: &TemplateRef) -> bool {
        let first = self.repaired.get_or_insert_with(|| template.uid.clone());
        *first != template.uid
    }

    /// Whether the domain is being deleted and still has our finalizer. True only once.
    pub(super) fn is_new_deletion(&mut self, domain: &Domain) -> bool {
        let deleted = domain.is_being_deleted() && domain.has_finalizer();
        deleted && !std::mem::replace(&mut self.deletion_seen, true)
    }
}
