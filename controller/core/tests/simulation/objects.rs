//! The objects that users create, and the properties of objects for the checks.

use std::collections::BTreeMap;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::{
    API_VERSION, CHANNEL_DEVICE_CLASS, DOMAIN_LABEL, DOMAIN_NAMESPACE_ANNOTATION, DRIVER_NAME,
    FINALIZER, TARGET_DAEMON, TARGET_LABEL, TARGET_WORKLOAD,
};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

/// Namespace and name.
pub(crate) type Place = (String, String);

/// A finalizer of another program.
pub(crate) const OF_OTHERS: &str = "example.com/other";

/// The namespaces of users.
pub(crate) const NAMESPACES: [&str; 2] = ["team-1", "team-2"];

/// The namespace of the Go driver's driver-managed mode.
pub(crate) const DRIVER_NAMESPACE: &str = "nvidia";

/// The start time of the simulation.
pub(crate) const START: Timestamp = Timestamp::UNIX_EPOCH;

/// The place of the Lease with this name.
pub(crate) fn lease_place(name: &str) -> Place {
    (DRIVER_NAMESPACE.to_owned(), name.to_owned())
}

/// The channel in the status.
pub(crate) fn channel(domain: &ComputeDomain) -> Option<u32> {
    domain.status.as_ref()?.channel
}

pub(crate) fn mk_claim((namespace, name): &Place, domain_uid: &str) -> ResourceClaim {
    let object = json!({
        "metadata": { "namespace": namespace, "name": name, "labels": { DOMAIN_LABEL: domain_uid } },
        "spec": {},
    });
    serde_json::from_value(object).unwrap()
}

pub(crate) fn place(metadata: &ObjectMeta) -> Place {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

pub(crate) fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

pub(crate) fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The UID of a ComputeDomain in the label.
pub(crate) fn domain_uid(metadata: &ObjectMeta) -> Option<&str> {
    label(metadata, DOMAIN_LABEL)
}

pub(crate) fn is_daemon(metadata: &ObjectMeta) -> bool {
    label(metadata, TARGET_LABEL) == Some(TARGET_DAEMON)
}

pub(crate) fn is_being_deleted(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

pub(crate) fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|it| it == finalizer)
}

pub(crate) fn has_our_finalizer(metadata: &ObjectMeta) -> bool {
    has_finalizer(metadata, FINALIZER)
}

pub(crate) fn remove_finalizer(metadata: &mut ObjectMeta, finalizer: &str) {
    if let Some(finalizers) = &mut metadata.finalizers {
        finalizers.retain(|it| it != finalizer);
    }
}

/// The UID of the ComputeDomain whose channel the template requests.
pub(crate) fn requested_uid(template: &ResourceClaimTemplate) -> Option<String> {
    let spec = serde_json::to_value(&template.spec.spec).unwrap();
    let class = &spec["devices"]["requests"][0]["exactly"]["deviceClassName"];
    let uid = &spec["devices"]["config"][0]["opaque"]["parameters"]["domainID"];
    uid.as_str()
        .filter(|_| class == CHANNEL_DEVICE_CLASS)
        .map(ToOwned::to_owned)
}

/// Whether its annotation names another namespace.
pub(crate) fn is_copied(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    let home = annotations.and_then(|all| all.get(DOMAIN_NAMESPACE_ANNOTATION));
    home.is_some_and(|home| *home != place(metadata).0)
}

/// Whether it requests what the controller writes for the domain of the label.
pub(crate) fn is_made_for_label(template: &ResourceClaimTemplate) -> bool {
    let uid = domain_uid(&template.metadata);
    uid.is_some() && requested_uid(template).as_deref() == uid
}

/// Whether it also has all labels.
pub(crate) fn is_as_created(template: &ResourceClaimTemplate) -> bool {
    label(&template.metadata, TARGET_LABEL) == Some(TARGET_WORKLOAD) && is_made_for_label(template)
}

/// The name of the template in the domain's spec.
pub(crate) fn wanted_name(domain: &ComputeDomain) -> &str {
    &domain.spec().unwrap().channel.resource_claim_template.name
}

/// The wanted place of its template.
pub(crate) fn wanted_place(domain: &ComputeDomain) -> Place {
    let (namespace, _) = place(&domain.metadata);
    (namespace, wanted_name(domain).to_owned())
}

pub(crate) fn mk_domain((namespace, name): &Place, template: &str, mode: &str) -> ComputeDomain {
    let object = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "numNodes": 0, "channel": {
            "allocationMode": mode,
            "resourceClaimTemplate": { "name": template },
        } },
    });
    serde_json::from_value(object).unwrap()
}

/// A template of a user for another driver, with these labels.
pub(crate) fn mk_foreign_template(
    (namespace, name): &Place,
    labels: &BTreeMap<String, String>,
) -> ResourceClaimTemplate {
    let requests = json!([{ "name": "gpu", "exactly": { "deviceClassName": "gpu.nvidia.com" } }]);
    let object = json!({
        "metadata": { "namespace": namespace, "name": name, "labels": labels },
        "spec": { "spec": { "devices": { "requests": requests } } },
    });
    serde_json::from_value(object).unwrap()
}

/// Adds the managed fields of the creator, as the API server does.
pub(crate) fn note_writer(metadata: &mut ObjectMeta, manager: &str) {
    let write = json!([{ "manager": manager, "operation": "Update" }]);
    metadata.managed_fields = serde_json::from_value(write).unwrap();
}

/// Whether a controller created it and its claims fit the domain: if the domain has its own channel, nodes refuse
/// claims without the label.
pub(crate) fn is_fit_for(template: &ResourceClaimTemplate, domain: &ComputeDomain) -> bool {
    let channel = domain.status.as_ref().and_then(|status| status.channel);
    let has_own_channel = channel.is_some_and(|number| number > 0);
    let claims = template.spec.metadata.as_ref();
    let labels = claims.and_then(|claims| claims.labels.as_ref());
    let labelled = labels.is_some_and(|labels| labels.contains_key(DOMAIN_LABEL));
    is_as_created(template) && (labelled || !has_own_channel)
}

/// Whether our controller or the Go driver's created it.
pub(crate) fn is_by_controller(metadata: &ObjectMeta) -> bool {
    metadata.managed_fields.is_some()
}

/// The template that the Go driver's controller creates for the domain: always one channel, without metadata for the
/// claims.
pub(crate) fn mk_go_template(domain: &ComputeDomain) -> ResourceClaimTemplate {
    let (namespace, name) = wanted_place(domain);
    let uid = uid(&domain.metadata);
    let object = json!({
        "metadata": {
            "namespace": namespace, "name": name, "finalizers": [FINALIZER],
            "labels": { DOMAIN_LABEL: uid, TARGET_LABEL: TARGET_WORKLOAD },
        },
        "spec": { "spec": { "devices": {
            "requests": [{
                "name": "channel",
                "exactly": { "deviceClassName": CHANNEL_DEVICE_CLASS },
            }],
            "config": [{ "requests": ["channel"], "opaque": {
                "driver": DRIVER_NAME,
                "parameters": {
                    "apiVersion": API_VERSION,
                    "kind": "ComputeDomainChannelConfig",
                    "domainID": uid,
                    "allocationMode": "Single",
                },
            } }],
        } } },
    });
    let mut template: ResourceClaimTemplate = serde_json::from_value(object).unwrap();
    note_writer(&mut template.metadata, "compute-domain-controller");
    template
}
