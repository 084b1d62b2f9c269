//! Polls the fabric in the background, so that the latest reading is available
//! without waiting for NVML.
//!
//! Two threads: the probe thread only reads; the watch thread decides when, and
//! notices when a read does not return. It then reports the hang and goes on
//! waiting. It never starts a second read meanwhile, because a driver that hangs
//! one call hangs the next.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::fabric::Fabric;
use crate::gpu::Gpu;
use crate::nvml_failure::NvmlFailure;
use crate::probe::FabricProbe;
use crate::probe_error::ProbeError;
use crate::reading::{Latest, Reading};
use crate::watch_config::WatchConfig;

/// Reads a probe again and again until it is dropped.
///
/// # Guarantees
///
/// * At most one read is under way, ever: a hung one is neither joined nor doubled.
/// * [`latest`](Self::latest) never waits for NVML.
/// * Dropping ends the watch at once. A read that is under way ends on its own,
///   and its result is discarded.
pub struct FabricWatch {
    shared: Arc<Shared>,
    messages: Sender<Message>,
}

type ReadResult = Result<Vec<Gpu>, ProbeError>;

/// What the watch thread waits for.
enum Message {
    /// The probe thread has finished the read it was asked for.
    ReadReturned(ReadResult),
    /// The watch was dropped.
    Stop,
}

struct Shared {
    latest: Mutex<Latest>,
    probe: Arc<dyn FabricProbe>,
}

/// The watch thread.
struct WatchThread<F> {
    shared: Arc<Shared>,
    config: WatchConfig,
    on_change: F,
    /// Asks the probe thread for one read.
    requests: Sender<()>,
    messages: Receiver<Message>,
}

// === impl FabricWatch ===

impl FabricWatch {
    /// Starts both threads and the first read.
    ///
    /// `on_change` gets each reading that differs from the one before, not
    /// counting the time and the call in [`Fabric::NoAnswer`]. The first it gets
    /// is that of the first result or hang, never the one before it.
    ///
    /// * *Called* on the watch's own thread, one call after the other, in the
    ///   order of the changes, and with no lock held: it may call
    ///   [`latest`](Self::latest).
    /// * *Must not* block: while it runs, no read starts and no hang is noticed.
    ///   To get into async code, send the reading into a channel.
    /// * *May* panic: the process's panic hook reports it, this change is lost,
    ///   and the watch goes on.
    /// * Dropping the watch does not wait for it: a call that is running or
    ///   already due is still made.
    ///
    /// # Errors
    ///
    /// Only if a thread cannot be started. Whatever the probe returns is a
    /// reading.
    pub fn spawn(
        probe: impl FabricProbe,
        config: WatchConfig,
        on_change: impl FnMut(&Reading) + Send + 'static,
    ) -> io::Result<Self> {
        let probe: Arc<dyn FabricProbe> = Arc::new(probe);
        let shared = Arc::new(Shared {
            latest: Mutex::new(Latest::new()),
            probe: Arc::clone(&probe),
        });
        let (messages, inbox) = channel();
        let (requests, requested) = channel();
        let results = messages.clone();
        thread::Builder::new()
            .name("fabric-probe".to_owned())
            .spawn(move || run_probe(&*probe, &requested, &results))?;
        let watch = WatchThread {
            shared: Arc::clone(&shared),
            config,
            on_change,
            requests,
            messages: inbox,
        };
        thread::Builder::new()
            .name("fabric-watch".to_owned())
            .spawn(move || watch.run())?;
        Ok(Self { shared, messages })
    }

    /// The reading now. Never waits for NVML, and may be called on any thread.
    ///
    /// Before the first result it is
    /// [`NodeFabricState::NotReadYet`](crate::NodeFabricState::NotReadYet).
    pub fn latest(&self) -> Reading {
        self.shared.reading()
    }
}

impl fmt::Debug for FabricWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FabricWatch")
            .field("latest", &self.latest())
            .finish_non_exhaustive()
    }
}

impl Drop for FabricWatch {
    fn drop(&mut self) {
        // An error means that the watch thread has already ended.
        let _ = self.messages.send(Message::Stop);
    }
}

/// The probe thread: one read per request, until the watch thread has ended.
fn run_probe(probe: &dyn FabricProbe, requested: &Receiver<()>, results: &Sender<Message>) {
    while requested.recv().is_ok() {
        let result = catch_unwind(AssertUnwindSafe(|| probe.read())).unwrap_or_else(|panic| {
            Err(ProbeError::Nvml(NvmlFailure::Panicked {
                message: panic_message(&*panic),
            }))
        });
        if results.send(Message::ReadReturned(result)).is_err() {
            return;
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

// === impl WatchThread ===

impl<F: FnMut(&Reading)> WatchThread<F> {
    fn run(mut self) {
        loop {
            self.shared.lock().read_begins();
            if self.requests.send(()).is_err() {
                return;
            }
            let Some(result) = self.await_result() else {
                return;
            };
            if self.shared.lock().read_returned(result) {
                self.notify();
            }
            // No read is under way, so the only possible message is the end.
            match self.messages.recv_timeout(self.pause()) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Waits for the read under way for as long as it takes, and reports it once
    /// it is overdue. `None` if the watch was dropped.
    fn await_result(&mut self) -> Option<ReadResult> {
        let message = match self.messages.recv_timeout(self.config.hung_after) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                self.shared.lock().read_is_overdue();
                self.notify();
                self.messages.recv().ok()?
            }
        };
        match message {
            Message::ReadReturned(result) => Some(result),
            Message::Stop => None,
        }
    }

    fn pause(&self) -> Duration {
        if self.shared.lock().state().is_final() {
            self.config.final_pause
        } else {
            self.config.pending_pause
        }
    }

    /// The callback and the probe are the caller's code. Catches their panics, so
    /// that polling continues; the process's panic hook has reported them.
    fn notify(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            (self.on_change)(&self.shared.reading());
        }));
    }
}

// === impl Shared ===

impl Shared {
    /// The value is never left half-updated, so poisoning can be ignored.
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> Reading {
        let mut reading = self.lock().reading();
        // Without the lock: it is the caller's code.
        if let Fabric::NoAnswer { call, .. } = &mut reading.fabric {
            *call = self.probe.current_call();
        }
        reading
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
