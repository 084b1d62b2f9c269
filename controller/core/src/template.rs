use std::collections::BTreeMap;
use std::fmt;

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

use crate::{Domain, Refusal};

/// A template that exists, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object meant: never another one under the same name.
    pub uid: String,
}

impl TemplateRef {
    pub(crate) fn of(template: &ResourceClaimTemplate) -> Self {
        let metadata = &template.metadata;
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceClaimTemplate {}/{}", self.namespace, self.name)
    }
}

/// The template that the workload's pods name, byte for byte what Go's controller makes in effect.
///
/// The domain's own allocation mode goes through, so that one which cannot be served is refused
/// where its pod's events are seen; an absent one is `Single`.
pub fn claim_template(domain: &Domain) -> Result<ResourceClaimTemplate, Refusal> {
    let name = domain.template_name()?;
    let allocation_mode = match &domain.spec()?.channel.allocation_mode {
        AllocationMode::Unset => AllocationMode::Single,
        mode => mode.clone(),
    };
    let config = ComputeDomainChannelConfig {
        domain_id: domain.id().clone(),
        allocation_mode,
    };
    Ok(ResourceClaimTemplate {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(domain.namespace().to_owned()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            labels: Some(BTreeMap::from([
                (DOMAIN_LABEL.to_owned(), domain.id().to_string()),
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

/// What a template's labels say it is to a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The template of the domain's workloads.
    Workload,
    /// Made by the driver-managed mode for the domain's daemons.
    Daemon,
    /// Somebody else's.
    Foreign,
}

pub(crate) fn role(template: &ResourceClaimTemplate, domain: &Domain) -> Role {
    if label(template, DOMAIN_LABEL) != Some(domain.id().as_str()) {
        return Role::Foreign;
    }
    match label(template, TARGET_LABEL) {
        Some(TARGET_WORKLOAD) => Role::Workload,
        Some(TARGET_DAEMON) => Role::Daemon,
        _ => Role::Foreign,
    }
}

/// Whose a foreign template is, in words.
pub(crate) fn owner(template: &ResourceClaimTemplate) -> String {
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
