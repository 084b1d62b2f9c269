//! Objects for tests, all in the namespace [`TEAM`].

use compute_domain_api::names::{
    CHANNEL_DEVICE_CLASS, CLAIM_REPORTER, DOMAIN_LABEL, FINALIZER, TARGET_LABEL, TARGET_WORKLOAD,
};
use serde_json::{Value, json};

use crate::fake_api::{FakeApi, Resource};

pub(crate) const TEAM: &str = "team";

/// A ComputeDomain that wants the template `NAME-channel`.
pub(crate) fn mk_domain(name: &str) -> Value {
    mk_domain_that_wants(&format!("{name}-channel"), name)
}

pub(crate) fn mk_domain_that_wants(template: &str, name: &str) -> Value {
    json!({
        "kind": "ComputeDomain",
        "metadata": { "name": name, "namespace": TEAM },
        "spec": { "numNodes": 2, "channel": { "resourceClaimTemplate": { "name": template } } },
    })
}

/// A template of another owner.
pub(crate) fn mk_foreign_template(name: &str) -> Value {
    json!({
        "kind": "ResourceClaimTemplate",
        "metadata": { "name": name, "namespace": TEAM },
        "spec": { "spec": { "devices": { "requests": [
            { "name": "gpu", "exactly": { "deviceClassName": "gpu.nvidia.com" } },
        ] } } },
    })
}

/// A template as the Go driver's controller creates it.
pub(crate) fn mk_template_of_go(name: &str, domain_uid: &str) -> Value {
    json!({
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": name, "namespace": TEAM, "finalizers": [FINALIZER],
            "labels": { DOMAIN_LABEL: domain_uid, TARGET_LABEL: TARGET_WORKLOAD },
        },
        "spec": { "spec": { "devices": {
            "requests": [{ "name": "channel", "exactly": { "deviceClassName": CHANNEL_DEVICE_CLASS } }],
            "config": [{ "requests": ["channel"], "opaque": {
                "driver": "compute-domain.nvidia.com",
                "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
                    "domainID": domain_uid, "allocationMode": "Single",
                },
            } }],
        } } },
    })
}

/// A claim that is made from the template of this domain.
pub(crate) fn mk_claim(name: &str, domain_uid: &str) -> Value {
    json!({
        "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": TEAM, "labels": { DOMAIN_LABEL: domain_uid } },
        "spec": {},
    })
}

/// The slice of a node that the kubelet plugin publishes with these taints.
pub(crate) fn mk_slice(node: &str, taints: &[&str]) -> Value {
    let taints = taints.iter();
    let taints = taints.map(|key| json!({ "key": key, "effect": "NoSchedule" }));
    json!({
        "kind": "ResourceSlice",
        "metadata": { "name": format!("{node}-slice"), "namespace": "" },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeName": node,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "channel-0", "taints": taints.collect::<Vec<_>>() }],
        },
    })
}

/// Sets the finalizer that the scheduler sets just before it writes the allocation of a claim.
pub(crate) fn allocate(api: &FakeApi, claim: &str) {
    api.edit(Resource::Claims, TEAM, claim, |claim| {
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    });
}

/// Writes the node plugin's report into a claim that it has prepared for this domain.
pub(crate) fn report(api: &FakeApi, claim: &str, domain_uid: &str, clique: &str) {
    api.edit_as(Resource::Claims, TEAM, claim, CLAIM_REPORTER, |claim| {
        claim["status"]["devices"] = json!([{
            "driver": "compute-domain.nvidia.com", "pool": "node1", "device": "channel-0",
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Prepared" }],
            "data": { "computeDomain": domain_uid, "clique": clique, "channel": 0 },
        }]);
    });
}

/// Creates a claim of this domain that is prepared in this clique.
pub(crate) fn create_prepared(api: &FakeApi, claim: &str, domain_uid: &str, clique: &str) {
    api.create(mk_claim(claim, domain_uid));
    report(api, claim, domain_uid, clique);
}

/// The object in another namespace.
pub(crate) fn in_namespace(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub(crate) fn domain(api: &FakeApi, name: &str) -> Option<Value> {
    api.get(Resource::Domains, TEAM, name)
}

pub(crate) fn template(api: &FakeApi, name: &str) -> Option<Value> {
    api.get(Resource::Templates, TEAM, &format!("{name}-channel"))
}

pub(crate) fn create_domains(api: &FakeApi, names: &[impl AsRef<str>]) {
    for name in names {
        api.create(mk_domain(name.as_ref()));
    }
}

pub(crate) fn delete_domain(api: &FakeApi, name: &str) {
    api.delete(Resource::Domains, TEAM, name);
}

/// Removes all finalizers of an object, as by a manual edit.
pub(crate) fn strip_finalizers(api: &FakeApi, resource: Resource, name: &str) {
    api.edit(resource, TEAM, name, |object| {
        object["metadata"]["finalizers"] = json!([]);
    });
}

/// Removes all labels of the template of this domain.
pub(crate) fn strip_labels(api: &FakeApi, name: &str) {
    edit_template(api, name, |template| {
        template["metadata"]["labels"] = json!({});
    });
}

/// Changes the request name, so that claims from the template cannot be prepared.
pub(crate) fn alter(template: &mut Value) {
    template["spec"]["spec"]["devices"]["requests"][0]["name"] = json!("other");
}

/// Adds a foreign finalizer to the template of this domain.
pub(crate) fn hold_template(api: &FakeApi, name: &str) {
    edit_template(api, name, |template| {
        let finalizers = template["metadata"]["finalizers"].as_array_mut().unwrap();
        finalizers.push(json!("example.com/backup"));
    });
}

pub(crate) fn edit_template(api: &FakeApi, name: &str, change: impl FnOnce(&mut Value)) {
    let template = format!("{name}-channel");
    api.edit(Resource::Templates, TEAM, &template, change);
}

/// Whether this domain has a template with another UID than this.
pub(crate) fn is_replaced(api: &FakeApi, name: &str, before: &str) -> bool {
    template(api, name).is_some_and(|now| uid(&now) != before)
}

pub(crate) fn is_being_deleted(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

pub(crate) fn is_ready(api: &FakeApi, name: &str) -> bool {
    let status = api.read(Resource::Domains, TEAM, name, |it| {
        it["status"]["status"] == "Ready"
    });
    status == Some(true)
}

pub(crate) fn are_ready(api: &FakeApi, names: &[impl AsRef<str>]) -> bool {
    names.iter().all(|name| is_ready(api, name.as_ref()))
}

pub(crate) fn mk_names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("d{number}")).collect()
}

/// The reason in its condition; empty without one.
pub(crate) fn reason(api: &FakeApi, name: &str) -> String {
    condition(api, name, "reason")
}

/// The message in its condition; empty without one.
pub(crate) fn message(api: &FakeApi, name: &str) -> String {
    condition(api, name, "message")
}

/// The condition about nodes without a clique, if there is one.
pub(crate) fn reported(api: &FakeApi, name: &str) -> Option<Value> {
    let domain = domain(api, name)?;
    let mut conditions = domain["status"]["conditions"].as_array()?.iter();
    conditions
        .find(|it| it["type"] == "NodesWithoutClique")
        .cloned()
}

fn condition(api: &FakeApi, name: &str, field: &str) -> String {
    let text = api.read(Resource::Domains, TEAM, name, |domain| {
        let condition = domain.pointer("/status/conditions/0")?;
        Some(condition[field].as_str()?.to_owned())
    });
    text.flatten().unwrap_or_default()
}

/// Whether neither domains nor templates of the controller are left.
pub(crate) fn nothing_is_left(api: &FakeApi) -> bool {
    let ours = |template: &Value| !template["metadata"]["finalizers"].is_null();
    !api.any(Resource::Domains, |_| true) && !api.any(Resource::Templates, ours)
}
