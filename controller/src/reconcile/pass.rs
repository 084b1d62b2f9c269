//! What one reconcile remembers between its requests.

use compute_domain_core::{Domain, Key, TemplateRef};

use crate::api_client::RequestError;

/// One reconcile.
pub(super) struct Pass<'a> {
    pub(super) key: &'a Key,
    /// How often the key has failed in a row.
    pub(super) failures: u32,
    /// Whether an object was read again because it was not as we thought. Once is enough: an error
    /// that comes back has another cause, such as a policy that refuses the change.
    pub(super) refreshed: bool,
    /// UID of the domain's template that was deleted to be created again. Once is enough, too.
    repaired: Option<Box<str>>,
    /// Why the first of the templates that the API server does not let go of stays. The others come
    /// first, then this is the result.
    pub(super) kept: Option<Kept>,
    /// Whether it was seen that the domain is being deleted.
    deletion_seen: bool,
}

/// The API server does not let us delete this template, or remove our finalizer from it.
#[derive(Debug, thiserror::Error)]
#[error("{template}")]
pub(crate) struct Kept {
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

    /// The domain's template has to be created again. Whether its predecessor had to, too: then
    /// somebody changes what is created.
    pub(super) fn is_second_repair(&mut self, template: &TemplateRef) -> bool {
        let first = self.repaired.get_or_insert_with(|| template.uid.clone());
        *first != template.uid
    }

    /// Whether the domain is being deleted, we have still to do something about it, and this was not
    /// asked before.
    pub(super) fn is_first_sight_of_deletion(&mut self, domain: &Domain) -> bool {
        let deleted = domain.is_being_deleted() && domain.has_finalizer();
        deleted && !std::mem::replace(&mut self.deletion_seen, true)
    }
}
