//! What three files of a node say of its claims: the plugin's checkpoint, the
//! CDI directories, and kubelet's own state.

mod kubelet;
mod specs;

use std::collections::BTreeMap;

use compute_domain_node::Group;
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint, ClaimRecord, Damaged, UNSETTLED_MARK};

/// The driver, as kubelet and the API call it.
pub(crate) use compute_domain_api::names::DRIVER_NAME as DRIVER;

pub(crate) use self::kubelet::{KubeletState, KubeletStateError, decode as decode_kubelet};
pub(crate) use self::specs::{SpecOfClaim, of_dir};

/// kubelet's own checkpoint, below its root.
pub(crate) const KUBELET_STATE: &str = "dra_manager_state";

/// The file as far as it can be trusted.
pub(crate) type Decoded = Result<Checkpoint<Group>, Damaged<Group>>;

/// The records of a checkpoint by claim UID, or those that survive.
pub(crate) fn records(decoded: &Decoded) -> BTreeMap<&str, &ClaimRecord<Group>> {
    let checkpoint = match decoded {
        Ok(checkpoint) => checkpoint,
        Err(damaged) => &damaged.saved,
    };
    checkpoint.claims().collect()
}

/// Whether a file beside the checkpoint says that claims may be missing in it.
pub(crate) fn is_unsettled(name: &str) -> bool {
    name.strip_prefix(CHECKPOINT_FILE)
        .is_some_and(|rest| rest.starts_with(UNSETTLED_MARK))
}
