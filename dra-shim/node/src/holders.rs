//! Which claim holds which channel.

use dra_checkpoint::{ClaimName, ClaimRecord, View};
use imex_cdi::ClaimUid;

use crate::device_group::DeviceGroup;
use crate::error::PrepareError;
use crate::request::ChannelRequest;

/// Fails if another claim uses the requested channel.
pub(crate) fn check_unused(
    view: &View<DeviceGroup>,
    uid: &ClaimUid,
    request: &ChannelRequest,
) -> Result<(), PrepareError> {
    let mut records = view.records().map_err(|_| PrepareError::NeedsRecovery)?;
    let holds = |record: &ClaimRecord<DeviceGroup>| {
        record
            .devices()
            .iter()
            .flat_map(DeviceGroup::channels)
            .any(|held| held.info.id == request.channel.get())
    };
    match records.find(|(other, record)| *other != uid.as_str() && holds(record)) {
        None => Ok(()),
        Some((other, record)) => Err(PrepareError::InUse {
            device: request.device.clone(),
            holder: ClaimName {
                uid: other.to_owned(),
                name: record.name.clone(),
                namespace: record.namespace.clone(),
            },
        }),
    }
}
