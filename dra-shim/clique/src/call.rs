//! Which call of the library a read is in, for telling where it hangs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared between the thread that makes the calls and those that ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallUnderWay(Arc<Mutex<Option<&'static str>>>);

// === impl CallUnderWay ===

impl CallUnderWay {
    /// The call that has begun and not returned.
    pub(crate) fn get(&self) -> Option<&'static str> {
        *self.lock()
    }

    /// Makes a call under its name.
    pub(crate) fn during<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        *self.lock() = Some(name);
        let returned = call();
        *self.lock() = None;
        returned
    }

    /// One whole value is replaced by another: a poisoned lock guards no less.
    fn lock(&self) -> MutexGuard<'_, Option<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_under_way_until_it_returns_and_every_clone_knows() {
        let here = CallUnderWay::default();
        let there = here.clone();
        assert_eq!(there.get(), None);
        assert_eq!(here.during("f", || there.get()), Some("f"));
        assert_eq!(there.get(), None);
    }
}
