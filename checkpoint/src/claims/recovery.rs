//! What a caller does before its first claim: first about the boot, then about
//! damage.

use super::{ClaimRef, Claims, Refused};
use crate::boot::Boot;
use crate::damage::{Damage, DamageReason};
use crate::lifecycle::{Event, Phase};
use crate::record::{ClaimRecord, Payload, State};
use dra_claim::ClaimStatus;

impl<P: Payload> Claims<P> {
    /// Takes records without a boot id for ones of this boot. The caller has
    /// seen that their effects exist: as a rule the records of a damaged V2, or
    /// of an older Go driver, are of this boot, and pods use them. Idempotent.
    ///
    /// # Errors
    ///
    /// [`Refused::OtherBoot`] for records of another boot.
    pub fn assume_same_boot(&mut self) -> Result<(), Refused> {
        match &self.view.boot {
            Boot::Same => Ok(()),
            Boot::Changed { recorded } => Err(Refused::OtherBoot {
                recorded: recorded.clone(),
            }),
            Boot::Missing => {
                self.set_boot();
                Ok(())
            }
        }
    }

    /// Removes all records of an earlier or unknown boot. The caller has undone
    /// what survived it, for each of
    /// [`records_unchecked`](crate::View::records_unchecked). Records of this
    /// boot stay.
    ///
    /// Not needed if every one of them was removed singly: an empty store is of
    /// the running boot.
    pub fn remove_earlier_boot(&mut self) {
        if self.view.boot != Boot::Same {
            let stays = |phase: Phase| phase.next(Event::AfterReboot) != Ok(Phase::Absent);
            let records = self.view.record_map_mut();
            records.retain(|_, record| stays(record.state.phase()));
            self.set_boot();
        }
    }

    /// Adds a claim that a damaged checkpoint has lost. The caller knows from
    /// elsewhere (the API server, its effects) that it is prepared.
    ///
    /// A record that survived stays, with its state, status and devices; one
    /// without names (V1 has none) gets those of `claim`.
    ///
    /// Checks no conflicts: the caller makes sure that no two claims hold one
    /// device, neither among those it restores nor with
    /// [`View::records_unchecked`](crate::View::records_unchecked).
    ///
    /// # Errors
    ///
    /// [`Refused::NotDamaged`] unless the store is damaged.
    pub fn restore(
        &mut self,
        claim: &ClaimRef,
        status: ClaimStatus,
        devices: Vec<P>,
    ) -> Result<(), Refused> {
        if self.view.damage == Damage::None {
            return Err(Refused::NotDamaged {
                uid: claim.uid.clone(),
            });
        }
        let lacks_names = self.get(&claim.uid).is_some_and(ClaimRecord::lacks_names);
        if self.advance(&claim.uid, Event::Restore)? {
            self.put(claim, status, State::Completed(devices));
        } else if lacks_names && !claim.name.is_empty() {
            self.add_names(claim);
        }
        Ok(())
    }

    fn add_names(&mut self, claim: &ClaimRef) {
        // A record whose payload does not read what it writes stays as it is.
        if let Some(Ok(record)) = self.view.copy_record(&claim.uid) {
            self.put(claim, record.status, record.state);
        }
    }

    /// Makes the checkpoint count as damaged: the caller has found effects of claims without a record, so
    /// somebody has removed the file, or put back an older one, and which claims hold devices is not
    /// known. Durable, and known to every process, until [`mark_rebuilt`](Self::mark_rebuilt). Nothing
    /// happens if it is damaged already.
    // req: CKPT-14
    pub fn note_missing(&mut self) {
        if self.view.damage == Damage::None {
            self.is_missing_noted = true;
            // Its file gets its name when the change is written.
            self.view.damage = Damage::Damaged {
                reason: DamageReason::Missing,
                set_aside_as: String::new(),
            };
        }
    }

    pub(crate) fn set_damage(&mut self, damage: Damage) {
        self.view.damage = damage;
    }

    /// Declares that no claim is missing any more: the caller has restored every
    /// one, and undone the effects of no one. Once committed,
    /// [`View::records`](crate::View::records) answers, and the files set aside
    /// get [`SETTLED_MARK`](crate::SETTLED_MARK).
    pub fn mark_rebuilt(&mut self) {
        if self.view.damage != Damage::None {
            self.view.damage = Damage::None;
            self.view.set_boot_if_empty(&self.current_boot);
            self.is_rebuilt = true;
            self.is_missing_noted = false;
            self.changed = true;
        }
    }

    fn set_boot(&mut self) {
        self.view.set_boot(&self.current_boot);
        self.changed = true;
    }
}
