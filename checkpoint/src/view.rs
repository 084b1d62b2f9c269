use std::sync::{Arc, PoisonError, RwLock};

use dra_common::Advice;

use crate::boot::{Boot, BootId};
use crate::damage::Damage;
use crate::format::{Checkpoint, EncodeError, Records};
use crate::lifecycle::Phase;
use crate::record::{ClaimRecord, Payload};

/// A snapshot of the store: its records and whether they are complete.
///
/// Cheap to clone. Nothing in it changes any more; [`Store::view`](crate::Store::view)
/// has a newer one after each commit.
#[derive(Debug)]
pub struct View<P> {
    /// Shared until someone changes it. The boot id in it is the file's until
    /// the records are known to be of the running boot.
    checkpoint: Arc<Checkpoint<P>>,
    pub(crate) boot: Boot,
    pub(crate) damage: Damage,
}

/// Why the records cannot answer what is free on this node. Until the caller
/// has recovered, nothing is started or completed; `abort` and `remove` work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum RecoveryNeeded {
    /// Claims may be missing. Ends with
    /// [`mark_rebuilt`](crate::Claims::mark_rebuilt).
    #[error("the checkpoint was damaged and is not rebuilt yet: claims may be missing from it")]
    #[advice(
        code = "checkpoint-damaged",
        hint = "wait until the plugin has rebuilt it from the API server"
    )]
    Damaged,
    /// The records are of an earlier boot. Ends with
    /// [`remove_earlier_boot`](crate::Claims::remove_earlier_boot).
    #[error("the checkpoint is of an earlier boot and its claims are not undone yet")]
    #[advice(
        code = "checkpoint-of-earlier-boot",
        hint = "wait until the plugin has undone the earlier boot's claims"
    )]
    BootChanged,
    /// The records have no boot id. Ends with
    /// [`assume_same_boot`](crate::Claims::assume_same_boot), or as
    /// [`BootChanged`](Self::BootChanged).
    #[error("the checkpoint has no boot id: its claims may be of an earlier boot")]
    #[advice(
        code = "checkpoint-without-boot-id",
        hint = "wait until the plugin has kept the claims, if it finds their effects on the node, or undone them"
    )]
    BootMissing,
}

/// The view that callers get: never ahead of what is durable.
#[derive(Debug)]
pub(crate) struct Published<P>(RwLock<Arc<View<P>>>);

// === impl View ===

impl<P> View<P> {
    pub(crate) fn new(checkpoint: Checkpoint<P>, damage: Damage, current: &BootId) -> Self {
        let boot = current.compare(checkpoint.boot_id());
        let mut view = Self {
            checkpoint: Arc::new(checkpoint),
            boot,
            damage,
        };
        view.set_boot_if_empty(current);
        view
    }

    /// Returns the record of the claim with this UID.
    ///
    /// Before recovery it may be of an earlier boot, and its effects gone:
    /// enough for undoing. Before answering a Prepare with its devices, call
    /// [`check_recovered`](Self::check_recovered), or
    /// [`start`](crate::Claims::start), which does.
    pub fn get(&self, uid: &str) -> Option<&ClaimRecord<P>> {
        self.record_map().get(uid)
    }

    /// Returns how far the claim with this UID got. Before recovery see
    /// [`get`](Self::get).
    pub fn phase(&self, uid: &str) -> Phase {
        self.get(uid)
            .map_or(Phase::Absent, |record| record.state.phase())
    }

    /// Iterates over the records by UID, whether or not they are complete:
    /// before recovery they may be too few or of an earlier boot. For undoing
    /// and reporting, not for deciding what is free.
    pub fn records_unchecked(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.checkpoint.claims()
    }

    /// Iterates over every record of this boot: a device that none of them
    /// holds is free. An error before recovery, when some may be missing.
    pub fn records(&self) -> Result<impl Iterator<Item = (&str, &ClaimRecord<P>)>, RecoveryNeeded> {
        self.check_recovered()?;
        Ok(self.records_unchecked())
    }

    /// Returns why [`records`](Self::records) cannot answer; `Ok` if it can.
    // req: CKPT-11
    pub fn check_recovered(&self) -> Result<(), RecoveryNeeded> {
        match (&self.damage, &self.boot) {
            (Damage::Damaged { .. }, _) => Err(RecoveryNeeded::Damaged),
            (Damage::None, Boot::Changed { .. }) => Err(RecoveryNeeded::BootChanged),
            (Damage::None, Boot::Missing) => Err(RecoveryNeeded::BootMissing),
            (Damage::None, Boot::Same) => Ok(()),
        }
    }

    /// Returns which boot the records are from.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// Returns whether claims may be missing.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    pub(crate) fn record_map(&self) -> &Records<P> {
        &self.checkpoint.records
    }

    /// Copies the records first if another view shares them.
    pub(crate) fn record_map_mut(&mut self) -> &mut Records<P> {
        &mut Arc::make_mut(&mut self.checkpoint).records
    }

    pub(crate) fn to_checkpoint(&self) -> Checkpoint<P> {
        Checkpoint::clone(&self.checkpoint)
    }

    /// Takes the records for ones of the running boot.
    pub(crate) fn set_boot(&mut self, current: &BootId) {
        if self.checkpoint.boot_id() != Some(current.as_str()) {
            Arc::make_mut(&mut self.checkpoint).boot_id = Some(current.as_str().to_owned());
        }
        self.boot = Boot::Same;
    }

    /// As [`set_boot`](Self::set_boot), if there is nothing of another boot to
    /// undo: no record, and none missing of a boot that is known.
    pub(crate) fn set_boot_if_empty(&mut self, current: &BootId) {
        let may_be_missing = self.damage != Damage::None && self.checkpoint.boot_id().is_some();
        if self.record_map().is_empty() && !may_be_missing {
            self.set_boot(current);
        }
    }
}

impl<P: Payload> View<P> {
    /// The file that holds it.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.checkpoint.encode()
    }

    /// A copy of a claim's record, for changing it.
    pub(crate) fn copy_record(&self, uid: &str) -> Option<Result<ClaimRecord<P>, EncodeError>> {
        self.checkpoint.copy_record(uid)
    }

    /// Encodes the records that have changed: all that can fail in `encode`.
    pub(crate) fn encode_changed(&self) -> Result<(), EncodeError> {
        self.checkpoint.encode_changed()
    }
}

impl<P> Clone for View<P> {
    fn clone(&self) -> Self {
        Self {
            checkpoint: Arc::clone(&self.checkpoint),
            boot: self.boot.clone(),
            damage: self.damage.clone(),
        }
    }
}

// === impl Published ===

impl<P> Published<P> {
    pub(crate) fn new(view: View<P>) -> Self {
        Self(RwLock::new(Arc::new(view)))
    }

    pub(crate) fn get(&self) -> Arc<View<P>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, view: View<P>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}
