//! What is to be settled before the first claim: the boot, then the damage.

use super::{ClaimName, Claims, Refused};
use crate::boot::Boot;
use crate::damage::Damage;
use crate::record::{Payload, State};
use crate::status::ClaimStatus;

impl<P: Payload> Claims<P> {
    /// Accepts records without a boot id as being of this boot. The caller has
    /// seen that their effects exist: those of a damaged V2 or of an older Go
    /// driver's file are, as a rule, of this boot and in use.
    ///
    /// Refused for records of another boot; without effect for this one's.
    pub fn keep_through_boot(&mut self) -> Result<(), Refused> {
        match &self.view.boot {
            Boot::Same => Ok(()),
            Boot::Changed { recorded } => Err(Refused::OtherBoot {
                recorded: recorded.clone(),
            }),
            Boot::Missing => {
                self.adopt_boot();
                Ok(())
            }
        }
    }

    /// Forgets all records of an earlier or unknown boot, after the caller has
    /// undone what survived it. Without effect on those of this boot. The last
    /// old record that goes, by whichever call, makes the store one of this boot.
    pub fn forget_earlier_boot(&mut self) {
        if self.view.boot != Boot::Same {
            self.view.records_mut().clear();
            self.adopt_boot();
        }
    }

    /// Puts a claim back that a damaged checkpoint has lost: the caller knows
    /// from elsewhere that it is prepared.
    ///
    /// A record that survived stays, with its state, status and devices; one
    /// without names (V1 has none) gets those of `claim`.
    ///
    /// Checks no conflicts: that two claims do not hold one device is for the
    /// caller to see to, among what it restores and against
    /// [`View::known`](crate::View::known).
    ///
    /// Refused unless the store is damaged.
    pub fn restore(
        &mut self,
        claim: &ClaimName,
        status: ClaimStatus,
        devices: Vec<P>,
    ) -> Result<(), Refused> {
        if self.view.damage == Damage::None {
            return Err(Refused::NotDamaged {
                uid: claim.uid.clone(),
            });
        }
        match self.get(&claim.uid) {
            None => self.put(claim, status, State::Completed(devices)),
            Some(known) if known.is_nameless() && !claim.name.is_empty() => self.name(claim),
            Some(_) => {}
        }
        Ok(())
    }

    /// Gives a record its names.
    fn name(&mut self, claim: &ClaimName) {
        // One whose payload does not read what it writes stays as it was read.
        if let Some(Ok(record)) = self.view.copy_of(&claim.uid) {
            self.put(claim, record.status, record.state);
        }
    }

    /// Declares that no claim is missing any more. From the commit on the
    /// store answers for what is free.
    pub fn settle_damage(&mut self) {
        if self.view.damage != Damage::None {
            self.view.damage = Damage::None;
            self.view.adopt_boot_if_empty(&self.current_boot);
            self.settles_damage = true;
            self.changed = true;
        }
    }

    fn adopt_boot(&mut self) {
        self.view.adopt_boot(&self.current_boot);
        self.changed = true;
    }
}
