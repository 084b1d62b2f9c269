//! Tracks the current call into the library, to report where a read hangs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The current call, shared between the calling thread and its observers.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentCall(Arc<Mutex<Option<&'static str>>>);

// === impl CurrentCall ===

impl CurrentCall {
    /// The name of the call in progress.
    pub(crate) fn get(&self) -> Option<&'static str> {
        *self.lock()
    }

    /// Runs `call`, with `name` as the current call.
    pub(crate) fn track<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        *self.lock() = Some(name);
        let returned = call();
        *self.lock() = None;
        returned
    }

    /// The value is never left half-updated, so poisoning can be ignored.
    fn lock(&self) -> MutexGuard<'_, Option<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_current_until_it_returns_and_every_clone_sees_it() {
        let here = CurrentCall::default();
        let there = here.clone();
        assert_eq!(there.get(), None);
        assert_eq!(here.track("f", || there.get()), Some("f"));
        assert_eq!(there.get(), None);
    }
}
