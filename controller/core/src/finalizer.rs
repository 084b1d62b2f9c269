//! JSON patches that add and remove our finalizer. They test UID and list, so they fail if another object
//! has the name or the list has changed.

use compute_domain_api::names::FINALIZER;
use serde_json::{Value, json};

pub(crate) fn is_on(finalizers: &[String]) -> bool {
    finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

/// Adds it to the object with this UID. Other finalizers stay.
// req: CD-27
pub(crate) fn add(uid: &str, finalizers: &[String]) -> Value {
    let same_object = json!({ "op": "test", "path": "/metadata/uid", "value": uid });
    if finalizers.is_empty() {
        json!([
            same_object,
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": [FINALIZER] },
        ])
    } else {
        json!([same_object, { "op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER }])
    }
}

/// Removes it from the object with this UID; `None` if it is not there.
// req: CD-19
pub(crate) fn remove(uid: &str, finalizers: &[String]) -> Option<Value> {
    let index = finalizers
        .iter()
        .position(|finalizer| finalizer == FINALIZER)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": path, "value": FINALIZER },
        { "op": "remove", "path": path },
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_finalizers(finalizers: &[&str]) -> Vec<String> {
        finalizers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_finalizer_of_an_object_creates_the_list() {
        assert_eq!(
            add("u", &[]),
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
            add("u", &mk_finalizers(&["foregroundDeletion"]))[1],
            json!({ "op": "add", "path": "/metadata/finalizers/-", "value": "resource.nvidia.com/computeDomain" })
        );
    }

    // req: CD-19
    #[test]
    fn only_ours_is_removed() {
        assert_eq!(
            remove("u", &mk_finalizers(&["foregroundDeletion", FINALIZER])).unwrap(),
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "u" },
                { "op": "test", "path": "/metadata/finalizers/1", "value": "resource.nvidia.com/computeDomain" },
                { "op": "remove", "path": "/metadata/finalizers/1" },
            ])
        );
        assert_eq!(remove("u", &mk_finalizers(&["foregroundDeletion"])), None);
    }
}
