//! The floor of pods with claims: a DRA driver in this process that does nothing. The remaining work
//! is that of the API server, the claim controller, the scheduler and kubelet.

use std::collections::BTreeMap;

use dra_kubelet::{
    Claim, ClaimError, ClaimRef, Context, DesiredPool, Driver, KubeClaims, Plugin, PreparedDevice,
};
use k8s_openapi::api::resource::v1::{Device, DeviceCapacity};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Client;
use tokio::sync::watch;

use crate::plugin::KUBELET_ROOT;

pub(super) const DRIVER: &str = "idle.example.com";

/// The same number as in the subject's device.
const SLOTS: &str = "64";

struct Idle;

impl Driver for Idle {
    async fn prepare(&self, _: &Context, claim: &Claim) -> Result<Vec<PreparedDevice>, ClaimError> {
        let devices = claim.results.iter();
        Ok(devices
            .map(|result| PreparedDevice::from_result(result, Vec::new()))
            .collect())
    }

    async fn unprepare(&self, _: &Context, _: &ClaimRef) -> Result<(), ClaimError> {
        Ok(())
    }
}

/// Publishes one device that claims share, and serves kubelet until dropped.
pub(super) fn start(client: &Client, node: &str) -> anyhow::Result<Plugin> {
    let slots = DeviceCapacity {
        value: Quantity(SLOTS.to_owned()),
        ..DeviceCapacity::default()
    };
    let device = Device {
        name: "device-0".to_owned(),
        allow_multiple_allocations: Some(true),
        capacity: Some(BTreeMap::from([("slots".to_owned(), slots)])),
        ..Device::default()
    };
    let (_, desired) = watch::channel(DesiredPool::Devices(vec![device]));
    let plugin = Plugin::builder(DRIVER, node)
        .kubelet_root(KUBELET_ROOT)
        .publish(client.clone(), desired)
        .start(Idle, KubeClaims::new(client.clone()))?;
    Ok(plugin)
}
