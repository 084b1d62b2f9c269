//! Realistic checkpoints: about 2 kB for each claim.

use anyhow::Context;
use compute_domain_node::DeviceGroup;
use dra_checkpoint::{ClaimRef, ClaimStatus};

/// A pod's claim for channel 0, allocated as by the scheduler.
pub(crate) struct Content {
    pub(crate) claim: ClaimRef,
    /// Two versions of the claim, of equal length.
    pub(crate) versions: [ClaimStatus; 2],
}

// === impl Content ===

impl Content {
    pub(crate) fn of(number: usize) -> anyhow::Result<Self> {
        Ok(Self {
            claim: ClaimRef {
                uid: format!("11111111-aaaa-4bbb-8ccc-{number:012}"),
                name: format!("worker-{number:04}-compute-domain-channel-abcde"),
                namespace: "default".to_owned(),
            },
            versions: [status(number, 'a')?, status(number, 'b')?],
        })
    }

    /// The devices of the prepared claim.
    pub(crate) fn devices(&self) -> anyhow::Result<Vec<DeviceGroup>> {
        let text = format!(
            r#"{{"devices":[{{"channel":{{"info":{{"id":0}},"device":{{"Requests":["channel"],"PoolName":"node-a","DeviceName":"channel-0","CDIDeviceIDs":["k8s.compute-domain.nvidia.com/claim={}-channel-0"]}}}},"daemon":null}}],"configState":{{"Type":"channel","ComputeDomain":"c0ffee00-1234-4567-89ab-0123456789ab"}}}}"#,
            self.claim.uid
        );
        let group =
            serde_json::from_str(&text).context("the benchmark's device group is not valid")?;
        Ok(vec![group])
    }
}

fn status(number: usize, version: char) -> anyhow::Result<ClaimStatus> {
    let text = format!(
        r#"{{"allocation":{{"devices":{{"results":[{{"request":"channel","driver":"compute-domain.nvidia.com","pool":"node-a","device":"channel-0"}}],"config":[{{"source":"FromClaim","requests":["channel"],"opaque":{{"driver":"compute-domain.nvidia.com","parameters":{{"allocationMode":"Single","apiVersion":"resource.nvidia.com/v1beta1","domainID":"c0ffee00-1234-4567-89ab-0123456789ab","kind":"ComputeDomainChannelConfig"}}}}}}]}},"nodeSelector":{{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In","values":["node-a"]}}]}}]}}}},"reservedFor":[{{"resource":"pods","name":"worker-{number:04}-{version}","uid":"88888888-0000-4000-8000-{number:012}"}}]}}"#
    );
    ClaimStatus::from_json(&text).context("the benchmark's claim status is not valid")
}
