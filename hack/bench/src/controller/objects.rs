//! Kinds, names and bodies of the objects, for the user, the floor and the observer.

use kube::api::ApiResource;
use kube::core::{DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

/// The number of namespaces over which the domains are spread.
pub(super) const NAMESPACES: usize = 10;

/// The controller's field manager.
pub(super) const MANAGER: &str = "compute-domain-controller";

const FINALIZER: &str = "resource.nvidia.com/computeDomain";

/// The namespace of the domain with this number.
pub(super) fn namespace(number: usize) -> String {
    format!("bench-{}", number % NAMESPACES)
}

/// The name of the domain with this number.
pub(super) fn name(number: usize) -> String {
    format!("train-{number}")
}

/// The kind ComputeDomain.
pub(super) fn domains() -> ApiResource {
    let kind = GroupVersionKind::gvk("resource.nvidia.com", "v1beta1", "ComputeDomain");
    ApiResource::from_gvk_with_plural(&kind, "computedomains")
}

/// The domain with this number, as a user creates it.
pub(super) fn domain(number: usize) -> DynamicObject {
    let name = name(number);
    let template = format!("{name}-imex-channel");
    let spec = json!({"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": template}}});
    DynamicObject::new(&name, &domains())
        .within(&namespace(number))
        .data(json!({"spec": spec}))
}

/// The JSON patch that adds the first finalizer to an object.
pub(super) fn add_finalizer(uid: &str) -> Value {
    json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]},
    ])
}

/// The JSON patch that removes the only finalizer of an object.
pub(super) fn remove_finalizer(uid: &str) -> Value {
    json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ])
}

/// The template of a domain.
pub(super) fn template(namespace: &str, domain: &str, uid: &str, name: &str) -> Value {
    let of_domain = json!({
        "labels": {"resource.nvidia.com/computeDomain": uid},
        "annotations": {"resource.nvidia.com/computeDomainName": domain},
    });
    let parameters = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
        "domainID": uid, "allocationMode": "Single",
    });
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "namespace": namespace, "name": name, "finalizers": [FINALIZER],
            "labels": {
                "resource.nvidia.com/computeDomain": uid,
                "resource.nvidia.com/computeDomainTarget": "Workload",
            },
            "annotations": {"resource.nvidia.com/computeDomainNamespace": namespace},
        },
        "spec": {"metadata": of_domain, "spec": {"devices": {
            "requests": [{"name": "channel", "exactly": {
                "deviceClassName": "compute-domain-default-channel.nvidia.com",
            }}],
            "config": [{"requests": ["channel"], "opaque": {
                "driver": "compute-domain.nvidia.com", "parameters": parameters,
            }}],
        }}},
    })
}

/// The status of an admitted domain, as a server-side apply patch.
pub(super) fn ready_status(namespace: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "status": {
            "status": "Ready",
            "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Admitted",
                "message": "the ResourceClaimTemplate for the workload exists; the administrator runs IMEX on the nodes",
                "observedGeneration": 1,
                "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }],
        },
    })
}
