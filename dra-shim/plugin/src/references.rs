//! The objects of events.

use dra_kubelet::ClaimRef;
use k8s_openapi::api::core::v1::ObjectReference;

/// A claim as the object of an event.
pub fn claim_reference(claim: &ClaimRef) -> ObjectReference {
    ObjectReference {
        api_version: Some("resource.k8s.io/v1".to_owned()),
        kind: Some("ResourceClaim".to_owned()),
        name: Some(claim.name.clone()),
        namespace: Some(claim.namespace.clone()),
        uid: Some(claim.uid.clone()),
        ..ObjectReference::default()
    }
}

/// A node as the object of an event, as in kubelet's own events: with its name as the UID.
pub(crate) fn node_reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}
