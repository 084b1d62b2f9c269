//! The objects of events.

use k8s_openapi::api::core::v1::ObjectReference;

/// A Node as in kubelet's events: with the name as its UID.
pub(crate) fn node_reference(node: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.to_owned()),
        uid: Some(node.to_owned()),
        ..ObjectReference::default()
    }
}

/// A `ComputeDomainClique`; the UID is empty if it does not exist.
pub(crate) fn clique_reference(namespace: &str, clique: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(compute_domain_api::names::API_VERSION.to_owned()),
        kind: Some("ComputeDomainClique".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(clique.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
