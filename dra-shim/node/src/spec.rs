//! The CDI spec of a claim that is prepared already.

use dra_checkpoint::ClaimRecord;
use imex_cdi::{ChannelId, ClaimDevice, ClaimSpecs, ClaimUid, Major};

use crate::device_group::{DeviceGroup, KubeletDevice};
use crate::error::PrepareError;
use crate::request::ChannelRequest;

/// A Completed record, whose spec is right now.
pub(crate) struct Rewritten {
    /// The devices in kubelet's answer.
    pub(crate) devices: Vec<KubeletDevice>,
    /// Whether the spec was missing or different.
    pub(crate) written: bool,
}

/// Writes a Completed record's spec unless it is right already. A spec of a driver in another mode is left as it is: this driver
/// cannot write one.
pub(crate) fn rewrite(
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    record: &ClaimRecord<DeviceGroup>,
    major: Option<Major>,
) -> Result<Rewritten, PrepareError> {
    let cdi = |source| PrepareError::Cdi { source };
    let mut written = false;
    match (own_channel(record), major) {
        (Some(channel), Some(major)) => {
            let ensured = specs.ensure(uid, &[ClaimDevice::imex_channel(channel, major)]);
            written = ensured.map_err(cdi)?.written;
        }
        (own, _) => {
            if !specs.exists(uid).map_err(cdi)? {
                return Err(match own {
                    Some(_) => PrepareError::NoMajor {
                        reason: "the claim's CDI spec is missing, too".to_owned(),
                    },
                    None => PrepareError::ForeignSpecLost,
                });
            }
        }
    }
    Ok(Rewritten {
        devices: kubelet_devices(record),
        written,
    })
}

/// The devices in kubelet's answer when the claim was prepared.
pub(crate) fn kubelet_devices(record: &ClaimRecord<DeviceGroup>) -> Vec<KubeletDevice> {
    record
        .devices()
        .iter()
        .flat_map(DeviceGroup::kubelet_devices)
        .cloned()
        .collect()
}

/// The channel of a record that this driver wrote: one channel, one CDI device.
pub(crate) fn own_channel(record: &ClaimRecord<DeviceGroup>) -> Option<ChannelId> {
    let [group] = record.devices() else {
        return None;
    };
    let [device] = group.devices.as_slice() else {
        return None;
    };
    let is_ours = ChannelRequest::from_status(&record.status).is_ok();
    device
        .channel
        .as_ref()
        .filter(|_| is_ours)
        .and_then(|held| ChannelId::new(held.info.id).ok())
}
