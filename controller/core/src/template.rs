//! The template that a ComputeDomain should have.

use std::collections::BTreeMap;

use compute_domain_api::names::{
    CHANNEL_DEVICE_CLASS, CHANNEL_REQUEST, DOMAIN_LABEL, DOMAIN_NAME_ANNOTATION,
    DOMAIN_NAMESPACE_ANNOTATION, DRIVER_NAME, FINALIZER, SHARE_ALTERNATIVE, SLOTS_CAPACITY,
    TARGET_LABEL, TARGET_WORKLOAD, WHOLE_ALTERNATIVE,
};
use compute_domain_api::{AllocationMode, ComputeDomainChannelConfig, DomainUid, Sharing};
use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceClaim, DeviceClaimConfiguration, DeviceRequest, DeviceSubRequest,
    ExactDeviceRequest, OpaqueDeviceConfiguration, ResourceClaimSpec, ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

use crate::content::Content;
use crate::domain::Domain;
use crate::rejection::Rejection;

/// Field manager for templates and finalizers. It differs from the Go driver's, so that the writes can be
/// distinguished.
pub const WRITER: &str = "imex-dra";

/// The template that the workload's pods name. Without sharing, the Go driver's controller creates the same
/// object, except for two things: the annotation, which distinguishes it from copies, and the claims' metadata.
/// The claims' label is for finding the claims of a ComputeDomain. With their annotation, a node finds the
/// ComputeDomain in one request.
///
/// An unsupported allocation mode is passed on: the plugin refuses it in Prepare, and the pod gets an event with
/// the reason. An absent mode is `Single`.
///
/// # Errors
/// If the domain has no spec, or one without a usable template name.
// req: CD-6
pub(crate) fn claim_template(
    domain: &Domain,
    sharing: Sharing,
) -> Result<ResourceClaimTemplate, Rejection> {
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
            spec: claim_spec(domain.uid(), &wanted.allocation_mode, Form::new(sharing)),
        },
    })
}

/// The form in which claims request a node's device. Every form works with every setting of the nodes, so
/// existing templates keep theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The whole device, as in the Go driver's template.
    Whole,
    /// A slot of the device, or the whole device on nodes where it has no slots.
    Share,
    /// `Share` as an older API server without the field for slots stores it.
    ShareWithoutSlots,
}

/// The spec of the claims: one channel for this domain.
// req: CD-7
pub(crate) fn claim_spec(uid: &DomainUid, mode: &AllocationMode, form: Form) -> ResourceClaimSpec {
    let config = ComputeDomainChannelConfig {
        domain_uid: uid.clone(),
        allocation_mode: mode.clone(),
    };
    let opaque = OpaqueDeviceConfiguration {
        driver: DRIVER_NAME.to_owned(),
        parameters: RawExtension(config.to_parameters()),
    };
    ResourceClaimSpec {
        devices: Some(DeviceClaim {
            requests: Some(vec![form.request()]),
            config: Some(vec![DeviceClaimConfiguration {
                requests: Some(vec![CHANNEL_REQUEST.to_owned()]),
                opaque: Some(opaque),
            }]),
            ..DeviceClaim::default()
        }),
    }
}

/// Whether this is the content of a domain's claims, with any allocation mode.
pub(crate) fn is_claim_content(content: Content, uid: &DomainUid) -> bool {
    let modes = [AllocationMode::Single, AllocationMode::All];
    modes.iter().any(|mode| is_content_of(content, uid, mode))
}

/// Whether this is the content of this domain's claims, in any form. No form counts as altered.
pub(crate) fn is_content_of(content: Content, uid: &DomainUid, mode: &AllocationMode) -> bool {
    let forms = [Form::Whole, Form::Share, Form::ShareWithoutSlots];
    let content_of = |form| Content::new(&claim_spec(uid, mode, form), uid.as_str());
    forms.into_iter().any(|form| content_of(form) == content)
}

// === impl Form ===

impl Form {
    pub(crate) fn new(sharing: Sharing) -> Self {
        match sharing {
            Sharing::One => Self::Whole,
            Sharing::Many { .. } => Self::Share,
        }
    }

    fn request(self) -> DeviceRequest {
        let name = CHANNEL_REQUEST.to_owned();
        let slots = match self {
            Self::Whole => {
                let exactly = ExactDeviceRequest {
                    device_class_name: CHANNEL_DEVICE_CLASS.to_owned(),
                    ..ExactDeviceRequest::default()
                };
                return DeviceRequest {
                    name,
                    exactly: Some(exactly),
                    ..DeviceRequest::default()
                };
            }
            Self::Share => Some(CapacityRequirements {
                requests: Some(BTreeMap::from([(
                    SLOTS_CAPACITY.to_owned(),
                    Quantity("1".to_owned()),
                )])),
            }),
            Self::ShareWithoutSlots => None,
        };
        let alternative = |name: &str, capacity| DeviceSubRequest {
            name: name.to_owned(),
            device_class_name: CHANNEL_DEVICE_CLASS.to_owned(),
            capacity,
            ..DeviceSubRequest::default()
        };
        DeviceRequest {
            name,
            first_available: Some(vec![
                alternative(SHARE_ALTERNATIVE, slots),
                alternative(WHOLE_ALTERNATIVE, None),
            ]),
            ..DeviceRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_share_is_requested_first_and_the_whole_device_as_the_alternative() {
        let request = serde_json::to_value(Form::Share.request()).unwrap();
        let class = "compute-domain-default-channel.nvidia.com";
        assert_eq!(
            request,
            json!({ "name": "channel", "firstAvailable": [
                { "name": "share", "deviceClassName": class, "capacity": { "requests": { "slots": "1" } } },
                { "name": "whole", "deviceClassName": class },
            ] })
        );
    }

    #[test]
    fn the_page_has_the_request_of_the_template_for_claims_that_are_written_by_hand() {
        let page = include_str!("../../../docs/reference/controller-behaviour.md");
        let (_, section) = page.split_once("## Claims written by hand\n").unwrap();
        let (_, rest) = section.split_once("requests:\n      - ").unwrap();
        let (request, _) = rest.split_once("\n    config:\n").unwrap();
        let request: serde_json::Value = serde_json::from_str(request).unwrap();
        assert_eq!(
            request,
            serde_json::to_value(Form::Share.request()).unwrap()
        );
    }

    #[test]
    fn every_form_is_ours_and_no_other_is() {
        let uid = DomainUid::parse("6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1").unwrap();
        let mode = AllocationMode::Single;
        for form in [Form::Whole, Form::Share, Form::ShareWithoutSlots] {
            let mut spec = claim_spec(&uid, &mode, form);
            let content = |spec: &ResourceClaimSpec| Content::new(spec, uid.as_str());
            assert!(is_content_of(content(&spec), &uid, &mode), "{form:?}");
            assert!(
                !is_content_of(content(&spec), &uid, &AllocationMode::All),
                "{form:?}"
            );
            let requests = spec.devices.as_mut().unwrap().requests.as_mut().unwrap();
            let request = requests.first_mut().unwrap();
            if let Some(alternatives) = &mut request.first_available {
                let share = alternatives.first_mut().unwrap();
                share.capacity = Some(CapacityRequirements {
                    requests: Some(BTreeMap::from([(
                        "slots".to_owned(),
                        Quantity("64".to_owned()),
                    )])),
                });
            } else {
                request.name = "other".to_owned();
            }
            assert!(!is_content_of(content(&spec), &uid, &mode), "{form:?}");
        }
    }
}
