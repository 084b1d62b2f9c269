use std::sync::{Arc, PoisonError, RwLock};

use dra_common::Advice;

use crate::boot::{Boot, BootId};
use crate::damage::Damage;
use crate::format::{Checkpoint, EncodeError, Records};
use crate::lifecycle::Phase;
use crate::record::{ClaimRecord, Payload};

/// A snapshot of the store: its records and whether they are complete.
///
/// Immutable and cheap to clone; [`Store::view`](crate::Store::view) returns a
/// newer one after each commit.
#[derive(Debug)]
pub struct View<P> {
    /// Copied on write. Its boot id is the file's until the records are known to
    /// be of the running boot.
    checkpoint: Arc<Checkpoint<P>>,
    pub(crate) boot: Boot,
    pub(crate) damage: Damage,
}

/// Why the records cannot tell which devices of this node are free. Until the
/// caller has recovered, `start` and `complete` fail; `abort` and `remove` work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum RecoveryNeeded {
    /// Claims may be missing. Ends with
    /// [`mark_rebuilt`](crate::Claims::mark_rebuilt).
    #[error("the checkpoint is damaged and not yet rebuilt, so records of claims may be missing")]
    #[advice(
        code = "checkpoint-damaged",
        hint = "wait until the plugin has rebuilt the checkpoint from the API server"
    )]
    Damaged,
    /// The records are of an earlier boot. Ends with
    /// [`remove_earlier_boot`](crate::Claims::remove_earlier_boot).
    #[error(
        "the checkpoint is from an earlier boot, and the plugin has yet to unprepare its claims"
    )]
    #[advice(
        code = "checkpoint-of-earlier-boot",
        hint = "wait until the plugin has unprepared the earlier boot's claims"
    )]
    BootChanged,
    /// The records have no boot id. Ends with
    /// [`assume_same_boot`](crate::Claims::assume_same_boot), or like
    /// [`BootChanged`](Self::BootChanged).
    #[error("the checkpoint has no boot id; its claims may be from an earlier boot")]
    #[advice(
        code = "checkpoint-without-boot-id",
        hint = "wait: the plugin checks which claims still have effects on the node, and unprepares the other claims"
    )]
    BootMissing,
}

/// The view that callers get: never ahead of the durable file.
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
    /// Before recovery the record may be of an earlier boot, without its effects.
    /// That is enough for undoing. Before answering a Prepare with its devices,
    /// call [`check_recovered`](Self::check_recovered), or
    /// [`start`](crate::Claims::start), which calls it.
    pub fn get(&self, uid: &str) -> Option<&ClaimRecord<P>> {
        self.record_map().get(uid)
    }

    /// Returns the phase of the claim with this UID. Before recovery, see
    /// [`get`](Self::get).
    pub fn phase(&self, uid: &str) -> Phase {
        self.get(uid)
            .map_or(Phase::Absent, |record| record.state.phase())
    }

    /// Iterates over the records by UID. Before recovery, some may be missing or
    /// of an earlier boot. For undoing and reporting, not for deciding which
    /// devices are free.
    pub fn records_unchecked(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.checkpoint.claims()
    }

    /// Iterates over every record of this boot: a device that none of them holds
    /// is free. Fails before recovery.
    pub fn records(&self) -> Result<impl Iterator<Item = (&str, &ClaimRecord<P>)>, RecoveryNeeded> {
        self.check_recovered()?;
        Ok(self.records_unchecked())
    }

    /// Returns why [`records`](Self::records) would fail, or `Ok`.
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

    /// Marks the records as of the running boot.
    pub(crate) fn set_boot(&mut self, current: &BootId) {
        if self.checkpoint.boot_id() != Some(current.as_str()) {
            Arc::make_mut(&mut self.checkpoint).boot_id = Some(current.as_str().to_owned());
        }
        self.boot = Boot::Same;
    }

    /// Calls [`set_boot`](Self::set_boot) if nothing of another boot is left to
    /// undo: there are no records, and no damage with a known boot id.
    pub(crate) fn set_boot_if_empty(&mut self, current: &BootId) {
        let may_be_missing = self.damage != Damage::None && self.checkpoint.boot_id().is_some();
        if self.record_map().is_empty() && !may_be_missing {
            self.set_boot(current);
        }
    }
}

impl<P: Payload> View<P> {
    /// The file's content.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.checkpoint.encode()
    }

    /// See [`Checkpoint::encode_aborted`].
    pub(crate) fn encode_aborted(&self, before: &Self) -> Result<[Vec<u8>; 2], EncodeError> {
        self.checkpoint.encode_aborted(&before.checkpoint)
    }

    /// A copy of a claim's record, to be changed.
    pub(crate) fn copy_record(&self, uid: &str) -> Option<Result<ClaimRecord<P>, EncodeError>> {
        self.checkpoint.copy_record(uid)
    }

    /// Encodes the changed records. After that, `encode` cannot fail.
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
