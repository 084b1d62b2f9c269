//! What the node's files say of a pod's channels.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_node::{DeviceGroup, Whose};
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint, ClaimName, ClaimRecord, Consumer};
use host_doctor::{
    DecodedCheckpoint, HostFiles, KUBELET_STATE_FILE, KubeletState, checkpoint_records,
};
use imex_annotation::{RECORDS_DIR, Record, records_in};
use imex_cdi::ChannelId;

use super::container::Pod;
use super::error::HookError;

/// Changes with every boot of the host.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The kubelet plugin's checkpoint, and what kubelet knows of its claims.
pub(super) struct Records {
    /// None if there is no checkpoint, or it is of an earlier boot: then no claim is prepared.
    checkpoint: Option<DecodedCheckpoint>,
    /// The pods of each claim; None if kubelet's state cannot be read. The checkpoint has
    /// only those that a claim was reserved for when it was prepared.
    pods: Option<BTreeMap<String, BTreeSet<String>>>,
    /// Channels that pods have by annotation. None where that cannot be read.
    annotated: Vec<Record>,
}

// === impl Records ===

impl Records {
    pub(super) fn read(files: &HostFiles, kubelet_root: &str) -> Result<Self, HookError> {
        let path = format!("{kubelet_root}/plugins/{DRIVER_NAME}/{CHECKPOINT_FILE}");
        let bytes = files.read(&path);
        let bytes = bytes.map_err(|source| HookError::Checkpoint {
            path: path.clone(),
            source,
        })?;
        let checkpoint = bytes.map(|bytes| Checkpoint::decode(&bytes));
        let checkpoint = checkpoint.filter(|decoded| !is_of_earlier_boot(decoded, files));
        let state = files.read(&format!("{kubelet_root}/{KUBELET_STATE_FILE}"));
        Ok(Self {
            checkpoint,
            pods: pods(state),
            annotated: records_in(&files.resolve_target(RECORDS_DIR)).unwrap_or_default(),
        })
    }

    /// Whose the channel is, for the pod.
    pub(super) fn whose(&self, channel: ChannelId, pod: Pod<'_>) -> Whose {
        let is_annotated =
            |record: &Record| record.pod_uid == pod.uid && record.channel == channel.get();
        if self.annotated.iter().any(is_annotated) {
            return Whose::ThisPods;
        }
        let mut others = Vec::new();
        for (uid, record) in self.checkpoint.iter().flat_map(checkpoint_records) {
            if !has(record, channel) {
                continue;
            }
            let in_namespace = record.namespace == pod.namespace;
            let mut reserved = record
                .status
                .reserved_for()
                .iter()
                .filter_map(Consumer::pod_uid);
            let is_known = match &self.pods {
                Some(pods) => pods.get(uid).is_some_and(|pods| pods.contains(pod.uid)),
                // Better than to refuse pods that share a claim: it is their namespace's.
                None => in_namespace,
            };
            if is_known || reserved.any(|uid| uid == pod.uid) {
                return Whose::ThisPods;
            }
            if in_namespace {
                others.push(ClaimName {
                    uid: uid.to_owned(),
                    name: record.name.clone(),
                    namespace: record.namespace.clone(),
                });
            }
        }
        if others.is_empty() {
            Whose::Nobodys
        } else {
            Whose::Perhaps(others)
        }
    }

    /// An error if records may be missing.
    pub(super) fn check_whole(&self) -> Result<(), HookError> {
        match &self.checkpoint {
            Some(Err(damaged)) => Err(HookError::Damaged {
                reason: damaged.reason.to_string(),
                hint: damaged.hint(),
            }),
            _ => Ok(()),
        }
    }
}

/// After a boot no claim is prepared until kubelet asks for it again.
fn is_of_earlier_boot(decoded: &DecodedCheckpoint, files: &HostFiles) -> bool {
    let recorded = decoded.as_ref().ok().and_then(Checkpoint::boot_id);
    let current = files.read_text(BOOT_ID).ok().flatten();
    let current = current.as_deref().map(str::trim);
    recorded
        .zip(current)
        .is_some_and(|(recorded, current)| recorded != current)
}

fn pods(state: io::Result<Option<Vec<u8>>>) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let state = KubeletState::decode(&state.ok()??).ok()?;
    let claims = state.claims.into_iter();
    Some(claims.map(|(uid, claim)| (uid, claim.pods)).collect())
}

/// Whether the record is of a prepared claim and has the channel.
fn has(record: &ClaimRecord<DeviceGroup>, channel: ChannelId) -> bool {
    let mut held = record.devices().iter().flat_map(DeviceGroup::channels);
    held.any(|device| device.info.id == channel.get())
}
