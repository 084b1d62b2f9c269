//! Restores labels of templates that were removed or changed. The immutable spec still names the ComputeDomain.

use compute_domain_api::names::{DOMAIN_LABEL, TARGET_LABEL, TARGET_WORKLOAD};
use compute_domain_api::{DomainUid, OpaqueConfig};
use k8s_openapi::api::resource::v1::{ResourceClaimSpec, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::content::Content;
use crate::finalizer;
use crate::go_driver;
use crate::template::{WRITER, is_claim_content};

/// The JSON patch that restores a template's labels. `None` if they are right, or if the template is not exactly
/// what a controller creates. The patch fails on another object of the same name.
///
/// No watch delivers a template without its label, so its finalizer would stay for ever.
pub fn restored_label(template: &ResourceClaimTemplate) -> Option<Value> {
    let metadata = &template.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizer::is_on(finalizers) || !is_by_controller(metadata) {
        return None;
    }
    let spec = &template.spec.spec;
    let owner = named_domain(spec)?;
    let ours = [
        (DOMAIN_LABEL, owner.as_str()),
        (TARGET_LABEL, TARGET_WORKLOAD),
    ];
    let labels = metadata.labels.as_ref();
    let has = |(key, value)| labels.and_then(|all| all.get(key)).map(String::as_str) == Some(value);
    // In this order: nearly every template has its labels.
    let labelled = ours.into_iter().all(has);
    if labelled || !is_claim_content(Content::new(spec, owner.as_str()), &owner) {
        return None;
    }
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let mut operations = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
    if labels.is_none() {
        operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": {} }));
    }
    for (key, value) in ours {
        let path = format!("/metadata/labels/{}", key.replace('/', "~1"));
        operations.push(json!({ "op": "add", "path": path, "value": value }));
    }
    Some(Value::Array(operations))
}

/// Whether a template without label may have lost it: it has our finalizer.
pub fn may_have_lost_label(metadata: &ObjectMeta) -> bool {
    finalizer::is_on(metadata.finalizers.as_deref().unwrap_or_default())
}

/// Whether our controller or the Go driver's created it. False for a copied or restored object.
pub(crate) fn is_by_controller(metadata: &ObjectMeta) -> bool {
    let mut writes = metadata.managed_fields.iter().flatten();
    writes.any(|write| {
        let manager = write.manager.as_deref();
        write.operation.as_deref() == Some(go_driver::OPERATION)
            && (manager == Some(WRITER) || manager == Some(go_driver::MANAGER))
    })
}

/// The ComputeDomain whose channel the claims request.
fn named_domain(spec: &ResourceClaimSpec) -> Option<DomainUid> {
    let config = spec.devices.as_ref()?.config.as_ref()?.first()?;
    let parameters = config.opaque.as_ref()?.parameters.0.to_string();
    match OpaqueConfig::decode_strict(&parameters) {
        Ok(OpaqueConfig::Channel(channel)) => Some(channel.domain_uid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{TEMPLATE_UID, UID, merged, mk_template_object, with_device_class};

    /// Created by a controller, with `patch` merged over it.
    fn mk(patch: Value) -> ResourceClaimTemplate {
        let created = json!({ "metadata": { "managedFields": [
            { "manager": "imex-dra", "operation": "Update" },
        ] } });
        mk_template_object(merged(created, patch))
    }

    fn labelled(labels: &Value) -> Value {
        json!({ "metadata": { "labels": labels } })
    }

    /// The operations that restore both labels.
    fn both() -> [Value; 2] {
        let add = |name: &str, value| {
            let path = format!("/metadata/labels/resource.nvidia.com~1{name}");
            json!({ "op": "add", "path": path, "value": value })
        };
        [
            add("computeDomain", UID),
            add("computeDomainTarget", "Workload"),
        ]
    }

    #[test]
    fn a_template_without_labels_gets_both_back() {
        let [domain, target] = both();
        assert_eq!(
            restored_label(&mk(labelled(&Value::Null))),
            Some(json!([
                { "op": "test", "path": "/metadata/uid", "value": TEMPLATE_UID },
                { "op": "add", "path": "/metadata/labels", "value": {} },
                domain,
                target,
            ]))
        );
    }

    #[test]
    fn a_missing_or_changed_label_is_restored() {
        let [domain, target] = both();
        let expected = json!([
            { "op": "test", "path": "/metadata/uid", "value": TEMPLATE_UID },
            domain,
            target,
        ]);
        for key in ["computeDomain", "computeDomainTarget"] {
            for value in [Value::Null, json!(""), json!("another")] {
                let mut labels = json!({});
                labels[format!("resource.nvidia.com/{key}")] = value;
                let restored = restored_label(&mk(labelled(&labels)));
                assert_eq!(restored.as_ref(), Some(&expected), "{labels}");
            }
        }
    }

    #[test]
    fn a_labelled_template_and_one_that_no_controller_created_are_left_alone() {
        let unlabelled = || labelled(&Value::Null);
        let metadata = |field: &str, value: Value| {
            let mut patch = unlabelled();
            patch["metadata"][field] = value;
            patch
        };
        for patch in [
            json!({}),
            merged(unlabelled(), with_device_class("gpu.nvidia.com")),
            metadata("finalizers", json!([])),
            metadata("managedFields", Value::Null),
            metadata(
                "managedFields",
                json!([{ "manager": "kubectl", "operation": "Update" }]),
            ),
            metadata(
                "managedFields",
                json!([{ "manager": "imex-dra", "operation": "Apply" }]),
            ),
        ] {
            assert_eq!(restored_label(&mk(patch.clone())), None, "{patch}");
        }
    }
}
