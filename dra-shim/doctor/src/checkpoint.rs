//! The plugin's checkpoint, as far as it can be trusted.

use std::collections::BTreeMap;

use compute_domain_node::DeviceGroup;
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint, ClaimRecord, DAMAGED_MARK, Damaged};

/// More bytes than any node's checkpoint has: that of a thousand claims has 2.2 MB.
/// A power of two, as [`read_bounded`](crate::read_bounded) prefers.
pub const MAX_CHECKPOINT_LEN: usize = 256 << 20;

/// A checkpoint of this driver, or why it is damaged and what survives.
pub type DecodedCheckpoint = Result<Checkpoint<DeviceGroup>, Damaged<DeviceGroup>>;

/// The records of a checkpoint by claim UID; of a damaged one, the survivors.
pub fn checkpoint_records(
    decoded: &DecodedCheckpoint,
) -> BTreeMap<&str, &ClaimRecord<DeviceGroup>> {
    let checkpoint = match decoded {
        Ok(checkpoint) => checkpoint,
        Err(damaged) => &damaged.saved,
    };
    checkpoint.claims().collect()
}

/// Whether a file of this name beside the checkpoint is a damaged one that was
/// set aside, so that claims may be missing in the checkpoint.
pub(crate) fn is_set_aside(name: &str) -> bool {
    name.strip_prefix(CHECKPOINT_FILE)
        .is_some_and(|rest| rest.starts_with(DAMAGED_MARK))
}
