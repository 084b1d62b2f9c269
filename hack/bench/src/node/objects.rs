//! The objects that users, the controller and the scheduler create before kubelet's calls.

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaimTemplate};
use kube::api::{ApiResource, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::idle_driver;
use crate::create::create;
use crate::dra_proto as proto;
use crate::plugin::Driver;
use crate::plugin::calls::BATCH;
use crate::plugin::claims::AllocatedClaim;

/// Numbers of claims that are already prepared; one group of rows for each.
pub(super) const PREPARED: [usize; 3] = [1, 16, 128];
/// The namespace of all objects.
pub(super) const NAMESPACE: &str = "bench";
/// The template of the pods' claims.
pub(super) const TEMPLATE: &str = "train-imex-channel";

/// The template of pods whose claims share the node's device.
pub(super) const SHARED_TEMPLATE: &str = "train-imex-channel-shared";

/// The template of pods whose claims share a device of the driver that does nothing.
pub(super) const IDLE_TEMPLATE: &str = "idle";

const CLASS: &str = "compute-domain-default-channel.nvidia.com";
const IDLE_CLASS: &str = "idle.example.com";
pub(super) const DRIVER: &str = "compute-domain.nvidia.com";
const DOMAIN: &str = "train";

/// The claims as kubelet names them: first those that stay prepared, then those of the measured calls.
pub(super) struct Objects {
    pub(super) claims: Vec<proto::Claim>,
}

impl Objects {
    pub(super) async fn create(client: &Client, node: &str) -> anyhow::Result<Self> {
        create::<Namespace>(
            &Api::all(client.clone()),
            json!({"metadata": {"name": NAMESPACE}}),
        )
        .await?;
        let expression = format!(
            "device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'channel' && device.attributes['{DRIVER}'].id == 0"
        );
        let class = json!({
            "metadata": {"name": CLASS},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        });
        create::<DeviceClass>(&Api::all(client.clone()), class).await?;
        let domain = create_domain(client).await?;
        let template = json!({
            "metadata": {"name": TEMPLATE},
            "spec": {"metadata": annotations(), "spec": claim_spec(&domain)},
        });
        let templates = Api::<ResourceClaimTemplate>::namespaced(client.clone(), NAMESPACE);
        create(&templates, template).await?;
        let shared = json!({
            "metadata": {"name": SHARED_TEMPLATE},
            "spec": {"metadata": annotations(), "spec": shared_claim_spec(&domain)},
        });
        create(&templates, shared).await?;
        let expression = format!("device.driver == '{}'", idle_driver::DRIVER);
        let class = json!({
            "metadata": {"name": IDLE_CLASS},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        });
        create::<DeviceClass>(&Api::all(client.clone()), class).await?;
        let idle = json!({
            "metadata": {"name": IDLE_TEMPLATE},
            "spec": {"spec": {"devices": {"requests": [share_or_whole(IDLE_CLASS)]}}},
        });
        create(&templates, idle).await?;
        let held = PREPARED.into_iter().max().unwrap_or_default();
        let mut claims = Vec::new();
        for number in 0..held + BATCH {
            claims.push(create_claim(client, node, &domain, number).await?);
        }
        Ok(Self { claims })
    }
}

async fn create_domain(client: &Client) -> anyhow::Result<String> {
    let kind = GroupVersionKind::gvk("resource.nvidia.com", "v1beta1", "ComputeDomain");
    let kind = ApiResource::from_gvk_with_plural(&kind, "computedomains");
    let spec = json!({"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": TEMPLATE}}});
    let domain = DynamicObject::new(DOMAIN, &kind).data(json!({"spec": spec}));
    let domains: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
    let created = domains.create(&PostParams::default(), &domain).await?;
    created.uid().context("a domain without a UID")
}

/// Creates the claim with this number, allocated on its own channel; channel 0 is left to the scheduler.
async fn create_claim(
    client: &Client,
    node: &str,
    domain: &str,
    number: usize,
) -> anyhow::Result<proto::Claim> {
    let mut metadata = annotations();
    metadata
        .as_object_mut()
        .context("metadata is an object")?
        .insert(
            "name".to_owned(),
            json!(format!("worker-{number:04}-compute-domain-channel-abcde")),
        );
    let claim = AllocatedClaim {
        driver: Driver(DRIVER),
        node,
        namespace: NAMESPACE,
        metadata,
        spec: claim_spec(domain),
        request: "channel",
        device: format!("channel-{}", number + 1),
        share: None,
        config: json!([
            {"source": "FromClaim", "requests": ["channel"], "opaque": opaque(domain)},
        ]),
    };
    claim.create(client).await
}

/// The annotations of the controller's template.
fn annotations() -> Value {
    json!({"annotations": {"resource.nvidia.com/computeDomainName": DOMAIN}})
}

fn claim_spec(domain: &str) -> Value {
    json!({"devices": {
        "requests": [{"name": "channel", "exactly": {"deviceClassName": CLASS}}],
        "config": [{"requests": ["channel"], "opaque": opaque(domain)}],
    }})
}

/// The claim spec that the controller writes if devices are shared.
fn shared_claim_spec(domain: &str) -> Value {
    json!({"devices": {
        "requests": [share_or_whole(CLASS)],
        "config": [{"requests": ["channel"], "opaque": opaque(domain)}],
    }})
}

fn share_or_whole(class: &str) -> Value {
    json!({"name": "channel", "firstAvailable": [
        {"name": "share", "deviceClassName": class, "capacity": {"requests": {"slots": "1"}}},
        {"name": "whole", "deviceClassName": class},
    ]})
}

fn opaque(domain: &str) -> Value {
    json!({"driver": DRIVER, "parameters": {
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
        "domainID": domain, "allocationMode": "Single",
    }})
}
