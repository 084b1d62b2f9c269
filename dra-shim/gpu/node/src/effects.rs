//! What claims change on hardware: written down before it happens, and undone from what was written by whichever
//! process comes next.

mod journal;
pub mod lifecycle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dra_checkpoint::{BootId, ClaimRecord, ClaimRef, View};
use dra_common::error_chain;
use durable_file::{Dir, Lock};
use gpu_api::TimeSlice;
use imex_cdi::ClaimUid;
use node_claims::{Changed, UnprepareError};

use self::journal::{Effect, Journals, read_all};
pub use self::journal::{JOURNALS, JournalFile};
use self::lifecycle::{Journal, Occasion, State, Step};
use crate::group::GpuGroup;
use crate::hardware::{Hardware, HardwareError};

/// How long a claim waits for another one that changes the same GPU.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// The changes that the claims of a node make on its hardware.
///
/// A directory has a journal for each claim that changes something, and a lock for each GPU. While one claim changes
/// a GPU, in any process, no other one does. A GPU that several prepared claims have changed is restored with the
/// last of them.
#[derive(Debug, Clone)]
pub struct Effects {
    dir: Arc<dyn Dir>,
    boot: String,
    hardware: Arc<dyn Hardware>,
    /// The claims with a journal, as of the last look at the directory.
    claims: Arc<Mutex<Vec<ClaimRef>>>,
}

/// Why hardware is not as a claim wants it.
#[derive(Debug, thiserror::Error)]
pub enum EffectError {
    /// The journals cannot be read or written.
    #[error("the journal of changes on GPUs cannot be used")]
    Journal(#[from] durable_file::Error),
    /// A GPU cannot be changed.
    #[error("the time slice of {gpu} cannot be set to {}", wanted.as_str())]
    Gpu {
        /// Its UUID.
        gpu: String,
        /// The time slice.
        wanted: TimeSlice,
        /// Why.
        source: HardwareError,
    },
}

/// What a [repair](Effects::repair) could not do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotRepaired {
    /// Claims with a GPU that could not be changed or restored.
    pub claims: BTreeSet<ClaimRef>,
    /// Why, and which journals cannot be read, one line each.
    pub reasons: Vec<String>,
}

/// The GPUs that a claim changes. No other claim changes them meanwhile.
pub(crate) struct ChangedGpus {
    effects: Effects,
    journal: JournalFile,
    /// What follows after the record was removed.
    occasion: Occasion,
    _locks: Vec<Lock>,
}

/// What a claim wants of its GPUs.
#[derive(Debug, Default)]
pub(crate) struct WantedEffects {
    /// The UUIDs of its full GPUs that no other claim may have.
    pub(crate) gpus: BTreeSet<String>,
    /// The time slices of some of them.
    pub(crate) time_slices: BTreeMap<String, TimeSlice>,
}

// === impl Effects ===

impl Effects {
    /// The changes that the journals in `dir` name. Removes journals of an earlier boot: a reboot undoes all changes.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn open(
        dir: Arc<dyn Dir>,
        boot: &BootId,
        hardware: Arc<dyn Hardware>,
    ) -> Result<Self, durable_file::Error> {
        let effects = Self {
            dir,
            boot: boot.as_str().to_owned(),
            hardware,
            claims: Arc::default(),
        };
        let journals = effects.journals()?;
        for journal in journals.values().filter(|it| it.boot != effects.boot) {
            journal.remove(&*effects.dir)?;
        }
        effects.journals()?;
        Ok(effects)
    }

    /// The claims with a journal, from memory.
    pub(crate) fn claims(&self) -> Vec<ClaimRef> {
        let claims = self.claims.lock();
        claims.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the time slices that a claim asks for, and resets those that ended claims have left on its other GPUs. The
    /// claim's record is Started. `allowed` is called before the first change, while no other claim can change these
    /// GPUs: it checks again which claims hold them. `None`: there was nothing to change.
    // req: GPU-60, GPU-62
    pub(crate) fn change<E: From<EffectError>>(
        &self,
        claim: &ClaimRef,
        wanted: &WantedEffects,
        allowed: impl FnOnce() -> Result<Arc<View<GpuGroup>>, E>,
    ) -> Result<Option<ChangedGpus>, E> {
        let journals = self.journals().map_err(EffectError::from)?;
        let own = journals.get(&claim.uid);
        let others = journals.values().filter(|it| it.uid() != claim.uid);
        let named = others.flat_map(JournalFile::gpus);
        let left: BTreeSet<_> = named.filter(|gpu| wanted.gpus.contains(*gpu)).collect();
        if wanted.time_slices.is_empty() && own.is_none() && left.is_empty() {
            return Ok(None);
        }
        let gpus = own.iter().flat_map(|it| it.gpus());
        let gpus = gpus.chain(wanted.time_slices.keys().map(String::as_str));
        let mut changed = self.hold(claim, gpus.chain(left.iter().copied()))?;
        let view = allowed()?;
        changed.change(&view, wanted, &left)?;
        Ok(Some(changed))
    }

    /// The GPUs that a claim has changed, or may have changed: according to its journal, or to the record that the
    /// Go driver has written.
    pub(crate) fn changed(
        &self,
        view: &View<GpuGroup>,
        uid: &str,
    ) -> Result<Option<ChangedGpus>, EffectError> {
        if ClaimUid::new(uid).is_err() {
            return Ok(None); // no file has such a name
        }
        let journal = self.journals()?.remove(uid);
        let Some(journal) = journal.or_else(|| self.journal_of_go(view, uid)) else {
            return Ok(None);
        };
        let mut changed = self.hold(&journal.claim(), journal.gpus())?;
        // Another process may have changed it before the lock was free.
        changed.journal = self.journals()?.remove(uid).unwrap_or(journal);
        Ok(Some(changed))
    }

    /// Changes the GPUs of prepared claims again, and undoes what could not be undone when its claim ended. Of prepared
    /// claims only those that are due: all after a start of the plugin or of the driver, later those that failed. `view`
    /// is called while no other claim can change a GPU.
    ///
    /// # Errors
    /// The directory cannot be read.
    // req: GPU-61, GPU-63
    pub fn repair(
        &self,
        view: impl Fn() -> Arc<View<GpuGroup>>,
        is_due: impl Fn(&ClaimRef) -> bool,
    ) -> Result<NotRepaired, durable_file::Error> {
        let (journals, unreadable) = read_all(&*self.dir)?;
        let mut failed = NotRepaired {
            claims: BTreeSet::new(),
            reasons: unreadable,
        };
        for journal in journals.into_values() {
            let claim = journal.claim();
            if !journal.undo && !is_due(&claim) {
                continue;
            }
            if let Err(error) = self.repair_one(&journal, &view) {
                let reason = format!("claim {claim}: {}", error_chain(&error));
                failed.reasons.push(reason);
                failed.claims.insert(claim);
            }
        }
        Ok(failed)
    }

    fn repair_one(
        &self,
        journal: &JournalFile,
        view: impl Fn() -> Arc<View<GpuGroup>>,
    ) -> Result<(), EffectError> {
        if journal.state(&view()).steps(Occasion::Start).is_empty() {
            return Ok(());
        }
        let mut changed = self.hold(&journal.claim(), journal.gpus())?;
        let view = view();
        match self.journals()?.remove(journal.uid()) {
            Some(journal) => changed.journal = journal,
            None => return Ok(()), // the claim has ended meanwhile
        }
        let steps = changed.journal.state(&view).steps(Occasion::Start);
        changed.take(&view, steps)
    }

    fn journals(&self) -> Result<BTreeMap<String, JournalFile>, durable_file::Error> {
        let (journals, _): Journals = read_all(&*self.dir)?;
        let claims = journals.values().map(JournalFile::claim).collect();
        *self.claims.lock().unwrap_or_else(PoisonError::into_inner) = claims;
        Ok(journals)
    }

    /// Waits until no other claim changes these GPUs.
    fn hold<'a>(
        &self,
        claim: &ClaimRef,
        gpus: impl Iterator<Item = &'a str>,
    ) -> Result<ChangedGpus, EffectError> {
        // In the same order for every claim, so that two never wait for each other.
        let gpus: BTreeSet<_> = gpus.collect();
        let locks = gpus
            .into_iter()
            .map(|gpu| self.dir.lock(&format!("{gpu}.lock"), LOCK_LIMIT));
        Ok(ChangedGpus {
            effects: self.clone(),
            journal: JournalFile::new(claim, &self.boot),
            occasion: Occasion::Unprepare,
            _locks: locks.collect::<Result<_, _>>()?,
        })
    }

    fn set(&self, gpu: &str, time_slice: TimeSlice) -> Result<(), EffectError> {
        let set = self.hardware.set_time_slice(gpu, time_slice);
        set.map_err(|source| EffectError::Gpu {
            gpu: gpu.to_owned(),
            wanted: time_slice,
            source,
        })
    }

    // req: GPU-64
    fn journal_of_go(&self, view: &View<GpuGroup>, uid: &str) -> Option<JournalFile> {
        let claim = view.get(uid)?.claim_ref(uid);
        let mut journal = JournalFile::new(&claim, &self.boot);
        // The interval does not matter: it is only undone.
        let effects = changed_by_go(view, uid).map(|gpu| Effect::new(gpu, TimeSlice::Default));
        journal.effects = effects.collect();
        (!journal.effects.is_empty()).then_some(journal)
    }
}

/// Whether a prepared claim other than `uid` has changed the GPU.
fn is_needed(
    view: &View<GpuGroup>,
    journals: &BTreeMap<String, JournalFile>,
    uid: &str,
    gpu: &str,
) -> bool {
    let mut prepared = view
        .records_unchecked()
        .filter(|(other, record)| *other != uid && record.is_completed());
    prepared.any(|(other, _)| match journals.get(other) {
        Some(journal) => !journal.undo && journal.gpus().any(|it| it == gpu),
        None => changed_by_go(view, other).any(|it| it == gpu),
    })
}

/// The GPUs on which a prepared claim has changed the time slice, according to its record.
fn changed_by_go<'a>(view: &'a View<GpuGroup>, uid: &str) -> impl Iterator<Item = &'a str> {
    let groups = view.get(uid).into_iter().flat_map(ClaimRecord::devices);
    groups
        .filter(|group| group.config_state.time_slice_applied == Some(true))
        .flat_map(|group| &group.devices)
        .filter_map(|device| Some(device.gpu.as_ref()?.info.uuid.as_str()))
}

// === impl ChangedGpus ===

impl ChangedGpus {
    fn change(
        &mut self,
        view: &View<GpuGroup>,
        wanted: &WantedEffects,
        left: &BTreeSet<&str>,
    ) -> Result<(), EffectError> {
        let time_slices = wanted.time_slices.iter();
        let effects = time_slices.map(|(gpu, time_slice)| Effect::new(gpu, *time_slice));
        let effects: Vec<_> = effects.collect();
        // An earlier Prepare of the claim may have been for other GPUs.
        let before = self.effects.journals()?.remove(self.journal.uid());
        let before = before.map(|it| it.effects).unwrap_or_default();
        let earlier: Vec<_> = before
            .into_iter()
            .filter(|it| !wanted.time_slices.contains_key(&it.gpu))
            .collect();
        if !earlier.is_empty() {
            self.journal.effects = earlier.iter().chain(&effects).cloned().collect();
            self.journal.write(&*self.effects.dir)?;
            self.set_back(view, &earlier)?;
        }
        let left = left.iter().copied();
        let left = left.filter(|gpu| !wanted.time_slices.contains_key(*gpu));
        let left: Vec<_> = left
            .map(|gpu| Effect::new(gpu, TimeSlice::Default))
            .collect();
        if !left.is_empty() {
            self.set_back(view, &left)?;
        }
        self.journal.effects = effects;
        let steps = if self.journal.effects.is_empty() {
            &[Step::RemoveJournal]
        } else {
            self.journal.state(view).steps(Occasion::Prepare)
        };
        self.take(view, steps)
    }

    // req: GPU-60
    fn take(&mut self, view: &View<GpuGroup>, steps: &[Step]) -> Result<(), EffectError> {
        for step in steps {
            match step {
                Step::WriteJournal => {
                    self.journal.undo = false;
                    self.journal.write(&*self.effects.dir)?;
                }
                Step::Change => {
                    for effect in &self.journal.effects {
                        self.effects.set(&effect.gpu, effect.wanted)?;
                    }
                }
                Step::Restore => self.set_back(view, &self.journal.effects)?,
                Step::MarkUndo => {
                    self.journal.undo = true;
                    self.journal.write(&*self.effects.dir)?;
                }
                Step::RemoveJournal => self.journal.remove(&*self.effects.dir)?,
                Step::RemoveRecord => {} // the caller's
            }
        }
        self.effects.journals()?; // for `claims`
        Ok(())
    }

    /// Restores what no other prepared claim has changed, too. Tries every GPU.
    fn set_back(&self, view: &View<GpuGroup>, effects: &[Effect]) -> Result<(), EffectError> {
        let journals = self.effects.journals()?;
        let mut restored = Ok(());
        for effect in effects.iter().rev() {
            if !is_needed(view, &journals, self.journal.uid(), &effect.gpu) {
                restored = self.effects.set(&effect.gpu, effect.before).and(restored);
            }
        }
        restored
    }

    /// The steps before and after the record is removed.
    fn around_the_record(&self, view: &View<GpuGroup>) -> (&'static [Step], &'static [Step]) {
        let steps = self.journal.state(view).steps(self.occasion);
        let removed = steps.iter().position(|it| *it == Step::RemoveRecord);
        steps.split_at(removed.unwrap_or(steps.len()))
    }
}

impl Changed<GpuGroup> for ChangedGpus {
    // req: GPU-63
    fn restore(&mut self, view: &View<GpuGroup>) -> Result<(), UnprepareError> {
        let (before, _) = self.around_the_record(view);
        if let Err(EffectError::Gpu { .. }) = self.take(view, before) {
            self.occasion = Occasion::UnprepareStuck;
            let (before, _) = self.around_the_record(view);
            return Ok(self.take(view, before)?);
        }
        Ok(())
    }

    fn forget(&mut self, view: &View<GpuGroup>) -> Result<(), UnprepareError> {
        let (_, after) = self.around_the_record(view);
        Ok(self.take(view, after)?)
    }
}

// === impl EffectError ===

impl From<EffectError> for UnprepareError {
    fn from(error: EffectError) -> Self {
        Self::Hardware {
            reason: error_chain(&error),
        }
    }
}

// === impl JournalFile ===

impl JournalFile {
    fn state(&self, view: &View<GpuGroup>) -> State {
        State {
            record: view.phase(self.uid()),
            journal: if self.undo {
                Journal::Undo
            } else {
                Journal::Wanted
            },
        }
    }
}

#[cfg(test)]
#[path = "effects_tests.rs"]
mod tests;
