//! Looks up which claims are allocated the node's device, `channel-0`.

use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME, channel_device_name};
use daemon_runtime::{Part, for_each_page};
use dra_checkpoint::ClaimStatus;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use kube::{Client, Resource as _};
use plugin_parts::{get_object, is_path_segment};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Reads claims from the API server.
pub(crate) struct NodeDeviceLookup {
    client: Client,
    node: String,
}

/// The field of a claim that is read. A malformed status does not fail a list.
#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

// === impl NodeDeviceLookup ===

impl NodeDeviceLookup {
    pub(crate) fn new(client: Client, node: &str) -> Self {
        Self {
            client,
            node: node.to_owned(),
        }
    }

    /// Whether the claim is allocated this node's device. One GET.
    pub(crate) async fn is_of(&self, namespace: &str, name: &str) -> Result<bool, kube::Error> {
        if !is_path_segment(namespace) || !is_path_segment(name) {
            return Ok(false);
        }
        let path = ResourceClaim::url_path(&(), Some(namespace));
        match get_object::<Item>(&self.client, path, name).await {
            Ok(item) => Ok(item.has_device_of(&self.node)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether any claim with a domain's label is allocated this node's device. Lists those
    /// claims, page by page, until one is found.
    pub(crate) async fn is_of_any_labelled(&self) -> Result<bool, kube::Error> {
        let mut found = false;
        let visit = |items: Vec<Item>| {
            found = items.iter().any(|item| item.has_device_of(&self.node));
            !found
        };
        let path = ResourceClaim::url_path(&(), None);
        let labelled = ListParams::default().labels(DOMAIN_LABEL);
        for_each_page(&self.client, &path, Part::Whole, labelled, visit).await?;
        Ok(found)
    }
}

// === impl Item ===

impl Item {
    fn has_device_of(&self, node: &str) -> bool {
        let status = self.status.as_ref();
        let status = status.and_then(|status| ClaimStatus::from_raw(status).ok());
        status.is_some_and(|status| has_node_device(&status, node))
    }
}

/// Whether the claim has the device of `node`.
fn has_node_device(status: &ClaimStatus, node: &str) -> bool {
    let mut ours = status.results_of(DRIVER_NAME);
    ours.any(|result| result.device() == channel_device_name(0)) && status.may_be_for_node(node)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_channel_0_is_the_device_of_the_node() {
        let has = |device: &str, node: &str| {
            let status = json!({"allocation": {
                "devices": {"results": [
                    {"request": "r", "driver": "gpu.nvidia.com", "pool": "p", "device": "channel-0"},
                    {"request": "r", "driver": DRIVER_NAME, "pool": "any", "device": device},
                ]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]},
                ]}]},
            }});
            has_node_device(&ClaimStatus::from_json(&status.to_string()).unwrap(), node)
        };
        assert!(has("channel-0", "n1"));
        assert!(!has("channel-0", "n2"));
        assert!(!has("channel-7", "n1"));
    }
}
