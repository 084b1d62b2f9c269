use std::collections::BTreeMap;

use compute_domain_api::names::{
    CHANNEL_DEVICE_CLASS, CHANNEL_REQUEST, DOMAIN_LABEL, DRIVER_NAME, FINALIZER, TARGET_DAEMON,
    TARGET_LABEL, TARGET_WORKLOAD,
};
use compute_domain_api::{AllocationMode, ComputeDomainChannelConfig};
use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceClaimConfiguration, DeviceRequest, ExactDeviceRequest,
    OpaqueDeviceConfiguration, ResourceClaimSpec, ResourceClaimTemplate, ResourceClaimTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

use crate::domain::Domain;
use crate::rejection::Rejection;

/// What a template is to a ComputeDomain, by its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The template that the domain's workload uses.
    Workload,
    /// Created by the driver-managed mode for the domain's daemons.
    Daemon,
    /// It belongs to somebody else.
    Foreign,
}

/// The template that the workload's pods name: the same object as the Go driver's controller
/// creates.
///
/// The domain's allocation mode is passed on even if it is not supported: the plugin refuses it in
/// Prepare, and the reason becomes an event of the pod. An absent one is `Single`.
///
/// # Errors
/// If the domain has no spec, or one without a usable template name.
pub(crate) fn claim_template(domain: &Domain) -> Result<ResourceClaimTemplate, Rejection> {
    let name = domain.template_name()?;
    let allocation_mode = match &domain.spec()?.channel.allocation_mode {
        AllocationMode::Unset => AllocationMode::Single,
        mode => mode.clone(),
    };
    let config = ComputeDomainChannelConfig {
        domain_uid: domain.uid().clone(),
        allocation_mode,
    };
    Ok(ResourceClaimTemplate {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(domain.namespace().to_owned()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            labels: Some(BTreeMap::from([
                (DOMAIN_LABEL.to_owned(), domain.uid().to_string()),
                (TARGET_LABEL.to_owned(), TARGET_WORKLOAD.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        spec: ResourceClaimTemplateSpec {
            metadata: None,
            spec: ResourceClaimSpec {
                devices: Some(devices(&config)),
            },
        },
    })
}

fn devices(config: &ComputeDomainChannelConfig) -> DeviceClaim {
    DeviceClaim {
        requests: Some(vec![DeviceRequest {
            name: CHANNEL_REQUEST.to_owned(),
            exactly: Some(ExactDeviceRequest {
                device_class_name: CHANNEL_DEVICE_CLASS.to_owned(),
                ..ExactDeviceRequest::default()
            }),
            ..DeviceRequest::default()
        }]),
        config: Some(vec![DeviceClaimConfiguration {
            requests: Some(vec![CHANNEL_REQUEST.to_owned()]),
            opaque: Some(OpaqueDeviceConfiguration {
                driver: DRIVER_NAME.to_owned(),
                parameters: RawExtension(config.to_parameters()),
            }),
        }]),
        ..DeviceClaim::default()
    }
}

pub(crate) fn role(template: &ResourceClaimTemplate, domain: &Domain) -> Role {
    if label(template, DOMAIN_LABEL) != Some(domain.uid().as_str()) {
        return Role::Foreign;
    }
    match label(template, TARGET_LABEL) {
        Some(TARGET_WORKLOAD) => Role::Workload,
        Some(TARGET_DAEMON) => Role::Daemon,
        _ => Role::Foreign,
    }
}

/// Whom a foreign template belongs to, as the end of a sentence.
pub(crate) fn describe_owner(template: &ResourceClaimTemplate) -> String {
    label(template, DOMAIN_LABEL).map_or_else(
        || "no ComputeDomain".to_owned(),
        |uid| format!("the ComputeDomain with UID {uid}"),
    )
}

fn label<'a>(template: &'a ResourceClaimTemplate, key: &str) -> Option<&'a str> {
    template
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}
