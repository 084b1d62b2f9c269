use std::sync::{Arc, PoisonError, RwLock};

use crate::boot::{Boot, BootId};
use crate::damage::Damage;
use crate::format::{Checkpoint, EncodeError};
use crate::record::{ClaimRecord, Payload, Records};

/// What the store knows at one moment.
#[derive(Debug)]
pub struct View<P> {
    /// Shared until someone changes it. The boot id in it is the file's,
    /// carried along unchanged until the caller settles it.
    checkpoint: Arc<Checkpoint<P>>,
    pub(crate) boot: Boot,
    pub(crate) damage: Damage,
}

/// Why the records are not the whole truth about this boot of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsettled {
    /// Claims may be missing.
    #[error("the checkpoint was damaged and is not rebuilt yet: claims may be missing from it")]
    Damaged,
    /// The records are of an earlier boot.
    #[error("the checkpoint is of an earlier boot and its claims are not undone yet")]
    BootChanged,
    /// Nobody knows of which boot the records are.
    #[error("the checkpoint has no boot id: its claims may be of an earlier boot")]
    BootMissing,
}

/// The view that callers may look at, never ahead of what is durable.
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
        view.adopt_boot_if_empty(current);
        view
    }

    /// The record of the claim with this UID.
    ///
    /// In an unsettled store it may be of an earlier boot, and its effects gone:
    /// enough for undoing. Whoever answers a Prepare with its devices asks
    /// [`settled`](Self::settled) first, or [`start`](crate::Claims::start),
    /// which does.
    pub fn get(&self, uid: &str) -> Option<&ClaimRecord<P>> {
        self.records().get(uid)
    }

    /// The records there are, by UID; in an unsettled store perhaps too few or
    /// of an earlier boot. Enough for undoing; not for deciding what is free.
    pub fn known(&self) -> impl Iterator<Item = (&str, &ClaimRecord<P>)> {
        self.checkpoint.claims()
    }

    /// Every record of this boot: what is not among them is free.
    pub fn all(&self) -> Result<impl Iterator<Item = (&str, &ClaimRecord<P>)>, Unsettled> {
        self.settled()?;
        Ok(self.known())
    }

    /// Whether [`all`](Self::all) can answer, and if not, why.
    pub fn settled(&self) -> Result<(), Unsettled> {
        match (&self.damage, &self.boot) {
            (Damage::Damaged { .. }, _) => Err(Unsettled::Damaged),
            (Damage::None, Boot::Changed { .. }) => Err(Unsettled::BootChanged),
            (Damage::None, Boot::Missing) => Err(Unsettled::BootMissing),
            (Damage::None, Boot::Same) => Ok(()),
        }
    }

    /// Of which boot the records are.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// Whether claims may be missing.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    pub(crate) fn records(&self) -> &Records<P> {
        &self.checkpoint.records
    }

    /// To change them: a copy, if another view has them too.
    pub(crate) fn records_mut(&mut self) -> &mut Records<P> {
        &mut Arc::make_mut(&mut self.checkpoint).records
    }

    pub(crate) fn to_checkpoint(&self) -> Checkpoint<P> {
        Checkpoint::clone(&self.checkpoint)
    }

    pub(crate) fn adopt_boot(&mut self, current: &BootId) {
        if self.checkpoint.boot_id() != Some(current.as_str()) {
            Arc::make_mut(&mut self.checkpoint).boot_id = Some(current.as_str().to_owned());
        }
        self.boot = Boot::Same;
    }

    /// Without records there is nothing of another boot to undo; unless some
    /// may be missing, and the boot that they are of is known.
    pub(crate) fn adopt_boot_if_empty(&mut self, current: &BootId) {
        let may_be_missing = self.damage != Damage::None && self.checkpoint.boot_id().is_some();
        if self.records().is_empty() && !may_be_missing {
            self.adopt_boot(current);
        }
    }
}

impl<P: Payload> View<P> {
    /// The file that holds it.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.checkpoint.encode()
    }

    /// The record of a claim, for changing it.
    pub(crate) fn copy_of(&self, uid: &str) -> Option<Result<ClaimRecord<P>, EncodeError>> {
        self.checkpoint.copy_of(uid)
    }

    /// What can fail in `encode`.
    pub(crate) fn make_texts(&self) -> Result<(), EncodeError> {
        self.checkpoint.make_texts()
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

// === impl Unsettled ===

impl Unsettled {
    /// A stable word for metrics and events.
    pub fn code(self) -> &'static str {
        match self {
            Self::Damaged => "checkpoint-damaged",
            Self::BootChanged => "checkpoint-of-earlier-boot",
            Self::BootMissing => "checkpoint-without-boot-id",
        }
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Damaged => "wait until the plugin has rebuilt it from the API server",
            Self::BootChanged => "wait until the plugin has undone the earlier boot's claims",
            Self::BootMissing => {
                "wait until the plugin has kept the claims, if it finds their effects on the node, or undone them"
            }
        }
    }
}
