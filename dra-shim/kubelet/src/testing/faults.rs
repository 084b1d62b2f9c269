//! Plugins' answers that the fake loses on request of a test.

/// A step of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationStep {
    /// `GetInfo`.
    GetInfo,
    /// `NotifyRegistrationStatus`: the plugin considers itself registered, but kubelet
    /// unregisters it.
    Notify,
}

/// The number of answers to lose, for each step.
#[derive(Default)]
pub(super) struct Faults {
    get_info: u32,
    notify: u32,
}

// === impl Faults ===

impl Faults {
    pub(super) fn set(&mut self, step: RegistrationStep, count: u32) {
        *self.count(step) = count;
    }

    /// Fails if this answer must be lost.
    pub(super) fn lose(&mut self, step: RegistrationStep) -> Result<(), String> {
        let count = self.count(step);
        match count.checked_sub(1) {
            None => Ok(()),
            Some(remaining) => {
                *count = remaining;
                Err(format!("{step:?} failed: the test lost the answer"))
            }
        }
    }

    const fn count(&mut self, step: RegistrationStep) -> &mut u32 {
        match step {
            RegistrationStep::GetInfo => &mut self.get_info,
            RegistrationStep::Notify => &mut self.notify,
        }
    }
}
