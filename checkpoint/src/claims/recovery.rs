//! Recovery before the first claim: first from a reboot, then from damage.

use super::{ClaimRef, Claims, Refused};
use crate::boot::Boot;
use crate::damage::{Damage, DamageReason};
use crate::lifecycle::{Event, Phase};
use crate::record::{ClaimRecord, Payload, State};
use dra_claim::ClaimStatus;

impl<P: Payload> Claims<P> {
    /// Declares that records without a boot id are of this boot. The caller has
    /// found their effects on the node: records from a damaged V2 or an older Go
    /// driver are usually of this boot, and pods use them. Idempotent.
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
    /// their effects, for each of
    /// [`records_unchecked`](crate::View::records_unchecked). Records of this boot
    /// stay.
    ///
    /// Not needed if all of them were removed one by one: an empty store counts as
    /// of the running boot.
    pub fn remove_earlier_boot(&mut self) {
        if self.view.boot != Boot::Same {
            let stays = |phase: Phase| phase.next(Event::AfterReboot) != Ok(Phase::Absent);
            let records = self.view.record_map_mut();
            records.retain(|_, record| stays(record.state.phase()));
            self.set_boot();
        }
    }

    /// Adds a claim that a damaged checkpoint has lost. The caller knows from
    /// another source (the API server, its effects) that it is prepared.
    ///
    /// A record that survived keeps its state, status and devices. If it has no
    /// names (V1 has none), it gets those of `claim`.
    ///
    /// Does not check for conflicts. The caller ensures that no two claims hold one
    /// device, among the restored ones and
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
        // A record whose payload cannot be read back stays unchanged.
        if let Some(Ok(record)) = self.view.copy_record(&claim.uid) {
            self.put(claim, record.status, record.state);
        }
    }

    /// Marks the checkpoint as damaged: the caller has found effects of claims without a record. So the
    /// file was deleted or replaced by an older one, and it is unknown which claims hold devices. The mark
    /// is durable and visible to every process until [`mark_rebuilt`](Self::mark_rebuilt). Does nothing if
    /// the checkpoint is already damaged.
    // req: CKPT-14
    pub fn note_missing(&mut self) {
        if self.view.damage == Damage::None {
            self.is_missing_noted = true;
            // The name is set when the change is written.
            self.view.damage = Damage::Damaged {
                reason: DamageReason::Missing,
                set_aside_as: String::new(),
            };
        }
    }

    pub(crate) fn set_damage(&mut self, damage: Damage) {
        self.view.damage = damage;
    }

    /// Declares that no claim is missing any more. The caller has restored every
    /// prepared claim, without undoing the effects of any. After the commit,
    /// [`View::records`](crate::View::records) succeeds and the files set aside are
    /// renamed with [`SETTLED_MARK`](crate::SETTLED_MARK).
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
