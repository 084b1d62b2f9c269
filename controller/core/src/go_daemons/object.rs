//! Objects of the Go driver's driver-managed mode.

use std::fmt;

use compute_domain_api::names::{DOMAIN_LABEL, TARGET_DAEMON, TARGET_LABEL};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::finalizer;

/// The kind of an object, in the order of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GoKind {
    /// The `DaemonSet` of IMEX daemons.
    DaemonSet,
    /// The `ResourceClaimTemplate` of their claims.
    Template,
}

/// A `DaemonSet` or template of the Go driver, in one of its namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoObject {
    kind: GoKind,
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    finalizers: Vec<String>,
    deleting: bool,
}

impl GoObject {
    /// The object and the UID of its ComputeDomain; `None` if name or labels are not the Go driver's.
    // req: MODE-33
    pub fn new(kind: GoKind, meta: &ObjectMeta) -> Option<(&str, Self)> {
        let label = |name: &str| meta.labels.as_ref()?.get(name).map(String::as_str);
        let domain = label(DOMAIN_LABEL).filter(|uid| !uid.is_empty())?;
        let name = meta.name.as_deref()?;
        let has_target = kind == GoKind::DaemonSet || label(TARGET_LABEL) == Some(TARGET_DAEMON);
        if !has_target || name != format!("computedomain-daemon-{domain}") {
            return None;
        }
        let object = Self {
            kind,
            namespace: meta.namespace.as_deref()?.into(),
            name: name.into(),
            uid: meta.uid.as_deref()?.into(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        };
        Some((domain, object))
    }

    /// Its kind.
    pub fn kind(&self) -> GoKind {
        self.kind
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether it is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.deleting
    }

    /// The JSON patch that removes the driver's finalizer; `None` if it has none.
    pub fn finalizer_removal(&self) -> Option<Value> {
        finalizer::remove(&self.uid, &self.finalizers)
    }
}

impl fmt::Display for GoObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            GoKind::DaemonSet => "DaemonSet",
            GoKind::Template => "ResourceClaimTemplate",
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// Whether an object of a clique belongs to this ComputeDomain, by its name `UID.CLIQUE`.
pub fn is_clique_of(name: &str, domain: &str) -> bool {
    let rest = name.strip_prefix(domain);
    rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('.'))
}

/// The JSON patch that removes the label of this ComputeDomain, and no other one, from a node.
pub fn label_removal(domain: &str) -> Value {
    let path = format!("/metadata/labels/{}", DOMAIN_LABEL.replace('/', "~1"));
    json!([
        { "op": "test", "path": path, "value": domain },
        { "op": "remove", "path": path },
    ])
}
