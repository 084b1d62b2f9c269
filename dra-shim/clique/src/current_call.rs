//! Which call into the library a read is in, to report where it hangs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared between the thread that makes the calls and the threads that ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentCall(Arc<Mutex<Option<&'static str>>>);

// === impl CurrentCall ===

impl CurrentCall {
    /// The call that has begun and not yet returned.
    pub(crate) fn get(&self) -> Option<&'static str> {
        *self.lock()
    }

    /// Runs `call`, known by `name` until it returns.
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
