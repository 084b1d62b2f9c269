//! Checkpoints with claims that the plugin would refuse, written by the plugin's own store.

use std::path::Path;
use std::sync::Arc;

use compute_domain_node::{ConfigState, DeviceDetails, DeviceGroup, DeviceInfo, PreparedDevice};
use dra_checkpoint::{BootId, ClaimRef, ClaimStatus, KubeletDevice, Refused, Store};
use durable_file::OsDir;
use jiff::Timestamp;
use serde_json::json;

/// A prepared claim.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) uid: String,
    pub(crate) domain: String,
    /// The number in the name of its allocated device; 0 is the node's device.
    pub(crate) device: u32,
    /// The channel that it opens.
    pub(crate) channel: u32,
    /// Its share of the device, if it has only a share.
    pub(crate) share: Option<&'static str>,
    /// The UIDs of the pods that it is reserved for.
    pub(crate) pods: Vec<String>,
}

impl Prepared {
    /// A claim with the node's device.
    pub(crate) fn new(uid: &str, domain: &str, channel: u32) -> Self {
        Self {
            uid: uid.to_owned(),
            domain: domain.to_owned(),
            device: 0,
            channel,
            share: None,
            pods: Vec::new(),
        }
    }

    fn status(&self) -> ClaimStatus {
        let driver = "compute-domain.nvidia.com";
        let pods = self.pods.iter();
        let reserved: Vec<_> = pods
            .map(|uid| json!({"resource": "pods", "name": "pod", "uid": uid}))
            .collect();
        let status = json!({"reservedFor": reserved, "allocation": {"devices": {
            "results": [{
                "request": "channel", "driver": driver, "pool": "node-a",
                "device": format!("channel-{}", self.device), "shareID": self.share,
            }],
            "config": [{"source": "FromClaim", "requests": ["channel"], "opaque": {
                "driver": driver,
                "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1",
                    "kind": "ComputeDomainChannelConfig",
                    "allocationMode": "Single",
                    "domainID": self.domain,
                },
            }}],
        }}});
        ClaimStatus::from_json(&status.to_string()).unwrap()
    }

    fn group(&self) -> DeviceGroup {
        let Self { uid, channel, .. } = self;
        let id = format!("k8s.compute-domain.nvidia.com/claim={uid}-channel-{channel}");
        let device = KubeletDevice {
            requests: Some(vec!["channel".to_owned()]),
            pool_name: "node-a".to_owned(),
            device_name: format!("channel-{}", self.device),
            cdi_device_ids: Some(vec![id]),
            share_id: self.share.map(str::to_owned),
            metadata: None,
        };
        DeviceGroup {
            devices: vec![PreparedDevice {
                channel: Some(DeviceDetails {
                    info: DeviceInfo { id: *channel },
                    device: Some(device),
                }),
                daemon: None,
            }],
            config_state: ConfigState {
                kind: "channel".to_owned(),
                compute_domain: self.domain.clone(),
            },
        }
    }
}

/// Writes `checkpoint.json` of this boot into `dir`, with these claims and no other.
pub(crate) fn write_checkpoint(dir: &Path, boot: &str, claims: &[Prepared]) {
    std::fs::create_dir_all(dir).unwrap();
    let checkpoint = dir.join(dra_checkpoint::CHECKPOINT_FILE);
    if checkpoint.exists() {
        std::fs::remove_file(checkpoint).unwrap();
    }
    let disk = Arc::new(OsDir::open(dir).unwrap());
    let (store, _) = Store::open(disk, BootId::new(boot).unwrap()).unwrap();
    let claims = claims.to_vec();
    store
        .commit(move |records| {
            for claim in claims {
                let name = ClaimRef {
                    uid: claim.uid.clone(),
                    name: format!("worker-{}", claim.uid),
                    namespace: "default".to_owned(),
                };
                let status = claim.status();
                records.start(&name, &status, Timestamp::now())?;
                records.complete(&claim.uid, &status, vec![claim.group()])?;
            }
            Ok::<_, Refused>(())
        })
        .unwrap();
}
