//! What a checkpoint file has: this driver's records, those of another driver, or damage.

use std::collections::BTreeSet;

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_node::DeviceGroup;
use dra_checkpoint::{Checkpoint, ClaimRecord, Damaged, Payload};
use serde_json::value::RawValue;

/// A checkpoint file.
pub(super) enum Contents {
    Own(Checkpoint<DeviceGroup>),
    /// An intact checkpoint of other drivers. Their devices are not decoded: each driver has its own layout.
    Foreign {
        checkpoint: Checkpoint<Box<RawValue>>,
        drivers: Vec<String>,
    },
    Damaged(Box<Damaged<DeviceGroup>>),
}

// === impl Contents ===

impl Contents {
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let damaged = match Checkpoint::decode(bytes) {
            Ok(checkpoint) => return Self::Own(checkpoint),
            Err(damaged) => Box::new(damaged),
        };
        let Ok(checkpoint) = Checkpoint::<Box<RawValue>>::decode(bytes) else {
            return Self::Damaged(damaged);
        };
        let drivers: BTreeSet<_> = checkpoint.claims().flat_map(drivers_of).collect();
        if drivers.is_empty() || drivers.contains(DRIVER_NAME) {
            return Self::Damaged(damaged);
        }
        let drivers = drivers.into_iter().collect();
        Self::Foreign {
            checkpoint,
            drivers,
        }
    }
}

fn drivers_of<P: Payload>(claim: (&str, &ClaimRecord<P>)) -> Vec<String> {
    let results = claim.1.status.results().iter();
    results.map(|it| it.driver().to_owned()).collect()
}
