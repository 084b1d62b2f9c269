//! Tracks the current call into the library, to report where a read hangs.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The beginning of a line that announces a call. No JSON begins so.
pub(crate) const ANNOUNCED: &str = "call ";

/// The current call, shared between the calling thread and its observers.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentCall {
    name: Arc<Mutex<Option<&'static str>>>,
    /// Another process that observes the calls.
    observer: Option<Arc<UnixStream>>,
}

// === impl CurrentCall ===

impl CurrentCall {
    /// Announces each call with a line on the socket: its reader knows the call that does not return, or that ends
    /// this process.
    pub(crate) fn announced_on(observer: UnixStream) -> Self {
        Self {
            observer: Some(Arc::new(observer)),
            ..Self::default()
        }
    }

    /// The name of the call in progress.
    pub(crate) fn get(&self) -> Option<&'static str> {
        *self.lock()
    }

    /// Runs `call`, with `name` as the current call.
    pub(crate) fn track<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        *self.lock() = Some(name);
        if let Some(mut observer) = self.observer.as_deref() {
            // Without a reader, the next answer fails.
            let _ = observer.write_all(format!("{ANNOUNCED}{name}\n").as_bytes());
        }
        let returned = call();
        *self.lock() = None;
        returned
    }

    /// The value is never left half-updated, so poisoning can be ignored.
    fn lock(&self) -> MutexGuard<'_, Option<&'static str>> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
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
