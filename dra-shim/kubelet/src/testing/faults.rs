//! Answers of plugins that a test wants to be lost.

/// A step of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationStep {
    /// `GetInfo`.
    GetInfo,
    /// `NotifyRegistrationStatus`: the plugin believes that it is registered, and
    /// kubelet unregisters it.
    Notify,
}

/// How many answers are still to be lost, for each step.
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

    /// Fails if this answer is one to be lost.
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
