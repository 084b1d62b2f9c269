//! Objects for this crate's tests.

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_api::{Isolation, Sharing};
use compute_domain_node::{Hardware, HolderPolicy};
use dra_checkpoint::ClaimStatus;
use imex_cdi::channel_major;
use nvml_clique::{ClusterUuid, Fabric, Gpu, GpuFabricState, GpuRef, NodeFabricState};

/// The Go driver's policy: no isolation, and one claim at a time.
pub(crate) const EXCLUSIVE: HolderPolicy = HolderPolicy {
    isolation: Isolation::None,
    sharing: Sharing::One,
};

/// A claim's status that allocates this channel.
pub(crate) fn mk_status(channel: u32) -> ClaimStatus {
    ClaimStatus::from_json(&mk_status_json(channel)).unwrap()
}

pub(crate) fn mk_status_json(channel: u32) -> String {
    format!(
        r#"{{"allocation":{{"devices":{{
            "results":[{{"request":"channel","driver":"{DRIVER_NAME}","pool":"node-a","device":"channel-{channel}"}}],
            "config":[{{"source":"FromClaim","requests":["channel"],"opaque":{{"driver":"{DRIVER_NAME}","parameters":
                {{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig",
                  "domainID":"c0ffee00-1234-4567-89ab-0123456789ab","allocationMode":"Single"}}}}}}]
        }}}}}}"#
    )
}

/// A healthy node in a clique.
pub(crate) fn mk_hardware() -> Hardware {
    let fabric = Fabric::from_gpus(&[Gpu {
        id: GpuRef {
            index: 0,
            uuid: None,
        },
        name: None,
        fabric: GpuFabricState::Completed {
            cluster: ClusterUuid([7; 16]),
            clique_id: 0,
        },
        health: None,
    }]);
    let list = "Character devices:\n235 nvidia-caps-imex-channels\n";
    Hardware {
        state: NodeFabricState::default().next(fabric.event()),
        fabric,
        major: Ok(channel_major(list).unwrap()),
        channel_count: None,
    }
}
