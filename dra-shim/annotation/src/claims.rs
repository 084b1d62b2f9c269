//! Which claim has a channel: the kubelet plugin's checkpoint, where there is one.

use std::io::ErrorKind;
use std::path::Path;

use compute_domain_node::{DeviceGroup, has_channel};
use dra_checkpoint::{BootId, Checkpoint};
use imex_cdi::ChannelId;

use crate::refused::Refused;

/// `namespace/name` of a prepared claim that has the channel. The file is replaced as a whole,
/// and read without a lock.
// req: NRI-19
pub(crate) fn claim_with(checkpoint: &Path, channel: ChannelId) -> Result<Option<String>, Refused> {
    let path = checkpoint.display();
    let bytes = match std::fs::read(checkpoint) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Refused::Claims(format!("{path}: {error}"))),
    };
    let checkpoint = Checkpoint::<DeviceGroup>::decode(&bytes)
        .map_err(|damaged| Refused::Claims(format!("{path} is damaged: {}", damaged.reason)))?;
    let current = BootId::current().ok();
    let recorded = checkpoint.boot_id();
    if recorded
        .zip(current.as_ref())
        .is_some_and(|(recorded, current)| recorded != current.as_str())
    {
        // After a boot no claim is prepared until kubelet asks for it again.
        return Ok(None);
    }
    let mut claims = checkpoint.claims();
    let found = claims.find(|(_, record)| has_channel(record, channel));
    Ok(found.map(|(uid, record)| match record.name.as_str() {
        "" => uid.to_owned(),
        name => format!("{}/{name}", record.namespace),
    }))
}
