//! Objects for the tests, as the API server returns them.

use compute_domain_api::Sharing;
use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::FINALIZER;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::template::claim_template;
use crate::{Admission, Domain, ObservedTemplate, StatusSchema, TemplateRef, status_patch};

pub(crate) const UID: &str = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";
pub(crate) const TEMPLATE_UID: &str = "template-uid";
pub(crate) const TIME: &str = "2026-01-02T03:04:05Z";
pub(crate) const OF_OTHERS: &str = "example.com/other";

/// Merges a JSON merge patch into an object or another patch. Null fields are removed from the object at the end.
pub(crate) fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
        for field in fields.values_mut() {
            *field = without_nulls(field.take());
        }
    }
    value
}

pub(crate) fn merged(mut into: Value, patch: Value) -> Value {
    merge(&mut into, patch);
    into
}

// === ComputeDomains ===

/// A new ComputeDomain, with `patch` merged over it.
pub(crate) fn mk_domain_object(patch: Value) -> ComputeDomain {
    let new = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": { "name": "train-a", "namespace": "team-1", "uid": UID, "generation": 1 },
        "spec": { "numNodes": 0, "channel": {
            "allocationMode": "Single",
            "resourceClaimTemplate": { "name": "train-a-channel" },
        } },
    });
    serde_json::from_value(without_nulls(merged(new, patch))).unwrap()
}

pub(crate) fn mk_domain(patch: Value) -> Domain {
    Domain::new(mk_domain_object(patch)).unwrap()
}

pub(crate) fn finalized() -> Value {
    json!({ "metadata": { "finalizers": [FINALIZER] } })
}

pub(crate) fn deleted() -> Value {
    being_deleted(&[FINALIZER])
}

/// A domain or a template that is being deleted, with these finalizers.
pub(crate) fn being_deleted(finalizers: &[&str]) -> Value {
    json!({ "metadata": { "finalizers": finalizers, "deletionTimestamp": TIME } })
}

pub(crate) fn with_template_name(name: &str) -> Value {
    json!({ "spec": { "channel": { "resourceClaimTemplate": { "name": name } } } })
}

pub(crate) fn with_mode(mode: &str) -> Value {
    json!({ "spec": { "channel": { "allocationMode": mode } } })
}

/// The patch plus the status that the controller writes into such a domain.
pub(crate) fn reported(schema: StatusSchema, patch: Value, admission: &Admission) -> Value {
    let domain = mk_domain(patch.clone());
    let written = status_patch(
        &domain,
        &admission.clone().into(),
        schema,
        Timestamp::UNIX_EPOCH,
    );
    merged(patch, json!({ "status": written["status"] }))
}

pub(crate) fn with_reported_status(patch: Value, admission: &Admission) -> Domain {
    mk_domain(reported(StatusSchema::FULL, patch, admission))
}

// === templates ===

/// The template that the controller creates for [`mk_domain`], as the API server returns it, with `patch` merged
/// over it.
pub(crate) fn mk_template_object(patch: Value) -> ResourceClaimTemplate {
    mk_template_for(&mk_domain(finalized()), patch)
}

pub(crate) fn mk_template_for(domain: &Domain, patch: Value) -> ResourceClaimTemplate {
    let template = serde_json::to_value(claim_template(domain, Sharing::One).unwrap()).unwrap();
    let stored = json!({ "metadata": { "uid": TEMPLATE_UID } });
    let object = merged(merged(template, stored), patch);
    serde_json::from_value(without_nulls(object)).unwrap()
}

pub(crate) fn mk_template(patch: Value) -> ObservedTemplate {
    ObservedTemplate::new(&mk_template_object(patch))
}

/// A patch that sets or removes the target label of a template.
pub(crate) fn with_target(target: Option<&str>) -> Value {
    json!({ "metadata": { "labels": { "resource.nvidia.com/computeDomainTarget": target } } })
}

/// The template that the Go driver's driver-managed mode creates for its daemons, in this namespace.
pub(crate) fn daemon_in(namespace: &str) -> Value {
    let identity = json!({ "metadata": {
        "name": format!("computedomain-daemon-{UID}"),
        "namespace": namespace,
        "uid": "daemon-uid",
    } });
    merged(with_target(Some("Daemon")), identity)
}

pub(crate) fn mk_daemon_template(namespace: &str) -> ObservedTemplate {
    mk_template(daemon_in(namespace))
}

/// Another device class than the controller's.
pub(crate) fn with_device_class(class: &str) -> Value {
    let exactly = json!({ "deviceClassName": class });
    let requests = json!([{ "name": "channel", "exactly": exactly }]);
    json!({ "spec": { "spec": { "devices": { "requests": requests } } } })
}

/// The reference of [`mk_template`].
pub(crate) fn mk_reference() -> TemplateRef {
    TemplateRef {
        namespace: "team-1".into(),
        name: "train-a-channel".into(),
        uid: TEMPLATE_UID.into(),
    }
}

/// The patch that removes our finalizer, the only one, from the object with this UID.
pub(crate) fn removal(uid: &str) -> Value {
    json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ])
}
