//! The owners of channels, from the node's files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use compute_domain_node::{ChannelOwner, DeviceGroup, is_reserved_for, owner_among};
use dra_checkpoint::Checkpoint;
use host_doctor::{
    DecodedCheckpoint, DraDriver, Host, KUBELET_STATE_FILE, KubeletState, boot_id,
    checkpoint_records, refusal_hint,
};
use imex_cdi::ChannelId;

use super::container::Pod;
use crate::args::KubeletRoot;
use crate::outcome::{Failure, Outcome};

/// The driver of channels.
const DRIVER: DraDriver = DraDriver::ComputeDomain;

/// The kubelet plugin's checkpoint, and kubelet's state of its claims.
pub(super) struct Records {
    /// None if there is no checkpoint, or it is of an earlier boot: then no claim is prepared.
    checkpoint: Option<DecodedCheckpoint<DeviceGroup>>,
    /// The pods of each claim; None if kubelet's state cannot be read. The checkpoint has only the
    /// pods that a claim was reserved for when it was prepared.
    pods: Option<BTreeMap<String, BTreeSet<String>>>,
}

// === impl Records ===

impl Records {
    pub(super) fn read(host: &Host, kubelet: &KubeletRoot) -> Result<Self, Failure> {
        let path = DRIVER.checkpoint(&kubelet.path.to_string_lossy());
        let bytes = host.read(&path).map_err(|error| {
            let what = format!("cannot read {path}, which records the owners of IMEX channels");
            Failure::caused_by(Outcome::Io, what, &error).hint(refusal_hint(&error))
        })?;
        let checkpoint = bytes.map(|bytes| Checkpoint::decode(&bytes));
        let checkpoint = checkpoint.filter(|decoded| !is_of_earlier_boot(decoded, host));
        let state = kubelet.path.join(KUBELET_STATE_FILE);
        let state = host.read(&state.to_string_lossy());
        Ok(Self {
            checkpoint,
            pods: pods(state),
        })
    }

    /// Returns the owner of the channel, as seen by the pod.
    pub(super) fn channel_owner(&self, channel: ChannelId, pod: Pod<'_>) -> ChannelOwner {
        let records = self.checkpoint.iter().flat_map(checkpoint_records);
        owner_among(records, channel, pod.namespace, |uid, record| {
            let is_known = match &self.pods {
                Some(pods) => pods.get(uid).is_some_and(|pods| pods.contains(pod.uid)),
                // Accept the claim's whole namespace, rather than refuse pods that share the claim.
                None => record.namespace == pod.namespace,
            };
            is_known || is_reserved_for(record, pod.uid)
        })
    }

    /// An error if records may be missing.
    pub(super) fn check_whole(&self) -> Result<(), Failure> {
        let Some(Err(damaged)) = &self.checkpoint else {
            return Ok(());
        };
        let message = format!(
            "the owners of IMEX channels are unknown, because the kubelet plugin's checkpoint is \
             damaged: {}",
            damaged.reason
        );
        Err(Failure::new(Outcome::Io, message).hint(damaged.hint()))
    }
}

/// After a reboot, no claim is prepared until kubelet calls Prepare again.
fn is_of_earlier_boot(decoded: &DecodedCheckpoint<DeviceGroup>, host: &Host) -> bool {
    let recorded = decoded.as_ref().ok().and_then(Checkpoint::boot_id);
    recorded
        .zip(boot_id(host))
        .is_some_and(|(recorded, current)| recorded != current)
}

fn pods(state: io::Result<Option<Vec<u8>>>) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let state = KubeletState::decode(&state.ok()??, DRIVER).ok()?;
    let claims = state.claims.into_iter();
    Some(claims.map(|(uid, claim)| (uid, claim.pods)).collect())
}
