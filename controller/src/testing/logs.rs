//! The controller's log in tests.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

thread_local! {
    /// The log of the test on this thread, if the test reads it.
    static TEXT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// The log of this test, from [`Logs::start`] on.
pub(crate) struct Logs(());

/// Writes to the log of the thread.
struct Writer;

/// Every test needs this before it logs anything: tracing permanently caches that a log line has no
/// subscriber.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        subscriber.with_writer(|| Writer).init();
    });
}

impl Logs {
    pub(crate) fn start() -> Self {
        TEXT.set(Some(Vec::new()));
        Self(())
    }

    /// The lines that contain this.
    #[expect(
        clippy::unused_self,
        reason = "self proves that the log has been started"
    )]
    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let text = TEXT.with_borrow(|text| String::from_utf8(text.clone().unwrap()).unwrap());
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        TEXT.set(None);
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TEXT.with_borrow_mut(|text| {
            if let Some(text) = text {
                text.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
