//! The template that a ComputeDomain should have.

use std::collections::BTreeMap;

use compute_domain_api::names::{
    CHANNEL_DEVICE_CLASS, CHANNEL_REQUEST, DOMAIN_LABEL, DOMAIN_NAME_ANNOTATION,
    DOMAIN_NAMESPACE_ANNOTATION, DRIVER_NAME, FINALIZER, TARGET_LABEL, TARGET_WORKLOAD,
};
use compute_domain_api::{AllocationMode, ComputeDomainChannelConfig, DomainUid};
use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceClaimConfiguration, DeviceRequest, ExactDeviceRequest,
    OpaqueDeviceConfiguration, ResourceClaimSpec, ResourceClaimTemplate, ResourceClaimTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

use crate::content::Content;
use crate::domain::Domain;
use crate::rejection::Rejection;

/// Field manager of templates and finalizers that we write. By another name than the Go driver's
/// controller, so that its writes can be told from ours.
pub const WRITER: &str = "imex-dra";

/// The template that the workload's pods name: the same object as the Go driver's controller
/// creates, except for its annotation, which tells it from copies, and for the metadata of the claims.
/// By their label, the claims of a ComputeDomain are found; by their annotation, a node finds the
/// ComputeDomain of a claim with one request.
///
/// The domain's allocation mode is passed on even if it is not supported: the plugin refuses it in
/// Prepare, and the reason becomes an event of the pod. An absent one is `Single`.
///
/// # Errors
/// If the domain has no spec, or one without a usable template name.
pub(crate) fn claim_template(domain: &Domain) -> Result<ResourceClaimTemplate, Rejection> {
    let wanted = domain.wanted()?;
    let uid_label = (DOMAIN_LABEL.to_owned(), domain.uid().to_string());
    let target_label = (TARGET_LABEL.to_owned(), TARGET_WORKLOAD.to_owned());
    let name_annotation = (DOMAIN_NAME_ANNOTATION.to_owned(), domain.name().to_owned());
    let namespace = domain.namespace().to_owned();
    let namespace_annotation = (DOMAIN_NAMESPACE_ANNOTATION.to_owned(), namespace.clone());
    Ok(ResourceClaimTemplate {
        metadata: ObjectMeta {
            name: Some(wanted.name.to_string()),
            namespace: Some(namespace),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            labels: Some(BTreeMap::from([uid_label.clone(), target_label])),
            annotations: Some(BTreeMap::from([namespace_annotation])),
            ..ObjectMeta::default()
        },
        spec: ResourceClaimTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(BTreeMap::from([uid_label])),
                annotations: Some(BTreeMap::from([name_annotation])),
                ..ObjectMeta::default()
            }),
            spec: claim_spec(domain.uid(), &wanted.allocation_mode),
        },
    })
}

/// The spec of the claims: one channel for this domain.
pub(crate) fn claim_spec(uid: &DomainUid, mode: &AllocationMode) -> ResourceClaimSpec {
    let config = ComputeDomainChannelConfig {
        domain_uid: uid.clone(),
        allocation_mode: mode.clone(),
    };
    let request = DeviceRequest {
        name: CHANNEL_REQUEST.to_owned(),
        exactly: Some(ExactDeviceRequest {
            device_class_name: CHANNEL_DEVICE_CLASS.to_owned(),
            ..ExactDeviceRequest::default()
        }),
        ..DeviceRequest::default()
    };
    let opaque = OpaqueDeviceConfiguration {
        driver: DRIVER_NAME.to_owned(),
        parameters: RawExtension(config.to_parameters()),
    };
    ResourceClaimSpec {
        devices: Some(DeviceClaim {
            requests: Some(vec![request]),
            config: Some(vec![DeviceClaimConfiguration {
                requests: Some(vec![CHANNEL_REQUEST.to_owned()]),
                opaque: Some(opaque),
            }]),
            ..DeviceClaim::default()
        }),
    }
}

/// Whether this is what the claims of a domain ask for, of either allocation mode.
pub(crate) fn is_claim_content(content: Content, uid: &DomainUid) -> bool {
    let modes = [AllocationMode::Single, AllocationMode::All];
    modes.iter().any(|mode| content == claim_content(uid, mode))
}

/// What the claims of this domain ask for.
pub(crate) fn claim_content(uid: &DomainUid, mode: &AllocationMode) -> Content {
    Content::new(&claim_spec(uid, mode), uid.as_str())
}
