//! JSON patches that add and remove our finalizer. They test what they rely on, so they fail
//! rather than change another object of the same name or a list that has changed meanwhile.

use compute_domain_api::names::FINALIZER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

pub(crate) fn is_on(metadata: &ObjectMeta) -> bool {
    metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER)
}

/// Adds it. Finalizers of others stay.
pub(crate) fn add(metadata: &ObjectMeta) -> Value {
    let same_object = json!({ "op": "test", "path": "/metadata/uid", "value": metadata.uid });
    if metadata.finalizers.iter().flatten().next().is_some() {
        json!([same_object, { "op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER }])
    } else {
        json!([
            same_object,
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": [FINALIZER] },
        ])
    }
}

/// Removes it; `None` if it is not there.
pub(crate) fn remove(metadata: &ObjectMeta) -> Option<Value> {
    let index = metadata
        .finalizers
        .iter()
        .flatten()
        .position(|finalizer| finalizer == FINALIZER)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": metadata.uid },
        { "op": "test", "path": path, "value": FINALIZER },
        { "op": "remove", "path": path },
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_metadata(finalizers: &[&str]) -> ObjectMeta {
        ObjectMeta {
            uid: Some("u".into()),
            finalizers: Some(finalizers.iter().map(ToString::to_string).collect()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn the_first_finalizer_of_an_object_creates_the_list() {
        assert_eq!(
            add(&mk_metadata(&[])),
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "u" },
                { "op": "test", "path": "/metadata/finalizers", "value": null },
                { "op": "add", "path": "/metadata/finalizers", "value": ["resource.nvidia.com/computeDomain"] },
            ])
        );
    }

    #[test]
    fn a_further_finalizer_is_appended_to_the_list() {
        assert_eq!(
            add(&mk_metadata(&["foregroundDeletion"]))[1],
            json!({ "op": "add", "path": "/metadata/finalizers/-", "value": "resource.nvidia.com/computeDomain" })
        );
    }

    #[test]
    fn only_ours_is_removed() {
        assert_eq!(
            remove(&mk_metadata(&["foregroundDeletion", FINALIZER])).unwrap(),
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "u" },
                { "op": "test", "path": "/metadata/finalizers/1", "value": "resource.nvidia.com/computeDomain" },
                { "op": "remove", "path": "/metadata/finalizers/1" },
            ])
        );
        assert_eq!(remove(&mk_metadata(&["foregroundDeletion"])), None);
    }
}
