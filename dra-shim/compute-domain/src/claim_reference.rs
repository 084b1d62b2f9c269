//! A claim as the object of an event.

use dra_kubelet::ClaimRef;
use k8s_openapi::api::core::v1::ObjectReference;

pub(crate) fn claim_reference(claim: &ClaimRef) -> ObjectReference {
    ObjectReference {
        api_version: Some("resource.k8s.io/v1".to_owned()),
        kind: Some("ResourceClaim".to_owned()),
        name: Some(claim.name.clone()),
        namespace: Some(claim.namespace.clone()),
        uid: Some(claim.uid.clone()),
        ..ObjectReference::default()
    }
}
