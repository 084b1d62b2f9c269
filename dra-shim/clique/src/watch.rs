//! Polls the fabric in the background, so that the latest reading is available without waiting
//! for NVML.
//!
//! There are two threads. The probe thread only reads. The watch thread schedules the reads,
//! and reports a read that does not return in time. It continues to wait for that read and
//! starts no second one, because a driver that hangs in one call hangs in the next.

use std::any::Any;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nvml_session::{NvmlFailure, OpenError as ProbeError};

use crate::fabric::Fabric;
use crate::gpu::Gpu;
use crate::probe::FabricProbe;
use crate::reading::{Latest, Reading};
use crate::watch_config::WatchConfig;

/// Reads a probe periodically until it is dropped.
///
/// # Guarantees
///
/// * At most one read is in progress: a hung read is not repeated.
/// * [`latest`](Self::latest) never waits for NVML.
/// * Dropping ends the watch at once. A read in progress runs to its end, and its result is
///   discarded.
pub struct FabricWatch {
    shared: Arc<Shared>,
    messages: Sender<Message>,
}

type ReadResult = Result<Vec<Gpu>, ProbeError>;

/// A message to the watch thread.
enum Message {
    /// The probe thread has finished the requested read.
    ReadReturned(ReadResult),
    /// A caller requests a new read.
    ReadSoon,
    /// The host has changed.
    ReadNow,
    /// The watch was dropped.
    Stop,
}

struct Shared {
    latest: Mutex<Latest>,
    probe: Arc<dyn FabricProbe>,
}

struct WatchThread<F> {
    shared: Arc<Shared>,
    config: WatchConfig,
    on_change: F,
    /// Requests one read from the probe thread.
    requests: Sender<()>,
    messages: Receiver<Message>,
    /// Whether the host has changed since the current read began.
    is_outdated: bool,
}

// === impl FabricWatch ===

impl FabricWatch {
    /// Starts both threads and the first read.
    ///
    /// `on_change` gets each reading that differs from the previous one, ignoring the time and
    /// the call in [`Fabric::NoAnswer`]. Its first reading is that of the first result or hang,
    /// never the initial one.
    ///
    /// * *Called* on the watch's thread, sequentially in the order of the changes, and without
    ///   holding a lock: it may call [`latest`](Self::latest).
    /// * *Must not* block: while it runs, no read starts and no hang is detected. For async
    ///   code, send the reading to a channel.
    /// * *May* panic: the process's panic hook reports the panic, this change is lost, and the
    ///   watch continues.
    /// * Dropping the watch does not wait for `on_change`: a call that is running or already
    ///   due still completes.
    ///
    /// # Errors
    ///
    /// Only if a thread cannot be started. Errors of the probe are readings.
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
            is_outdated: false,
        };
        thread::Builder::new()
            .name("fabric-watch".to_owned())
            .spawn(move || watch.run())?;
        Ok(Self { shared, messages })
    }

    /// The current reading. Never waits for NVML, and may be called on any thread.
    ///
    /// Before the first result it is
    /// [`NodeFabricState::NotReadYet`](crate::NodeFabricState::NotReadYet).
    pub fn latest(&self) -> Reading {
        self.shared.reading()
    }

    /// Requests a read before the end of the pause, and returns at once; `on_change` gets the
    /// result. The watch always keeps the shortest pause of [`WatchConfig`]. A read in progress
    /// satisfies the request.
    ///
    /// For callers that need a recent reading.
    pub fn read_soon(&self) {
        self.send(Message::ReadSoon);
    }

    /// Requests a read like [`read_soon`](Self::read_soon), but with the shortest pause of all
    /// states, and also after a read in progress. For callers that have detected a change of
    /// the host, for example that a driver was loaded.
    pub fn read_now(&self) {
        self.send(Message::ReadNow);
    }

    fn send(&self, message: Message) {
        // An error means that the watch thread has already ended.
        let _ = self.messages.send(message);
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
        self.send(Message::Stop);
    }
}

/// Runs the probe thread: one read per request, until the watch thread has ended.
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

fn until(instant: Instant) -> Duration {
    instant.saturating_duration_since(Instant::now())
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
            let changed = self
                .shared
                .lock()
                .read_returned(result, Instant::now(), &self.config);
            if changed {
                self.notify();
            }
            if !self.pause() {
                return;
            }
        }
    }

    /// Waits for the current read without a limit, and reports it once it is overdue. `None` if
    /// the watch was dropped.
    // req: NODE-35
    fn await_result(&mut self) -> Option<ReadResult> {
        let overdue = Instant::now() + self.config.hung_after;
        let mut is_reported = false;
        loop {
            let message = if is_reported {
                self.messages.recv().ok()?
            } else {
                match self.messages.recv_timeout(until(overdue)) {
                    Ok(message) => message,
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {
                        self.shared.lock().read_is_overdue();
                        self.notify();
                        is_reported = true;
                        continue;
                    }
                }
            };
            match message {
                Message::ReadReturned(result) => return Some(result),
                Message::ReadSoon => {} // in progress
                Message::ReadNow => self.is_outdated = true,
                Message::Stop => return None,
            }
        }
    }

    /// Waits until the next read is due. Returns false if the watch was dropped.
    fn pause(&mut self) -> bool {
        let began = Instant::now();
        let pause = self.shared.lock().pause(began, &self.config);
        let now = began + self.config.shortest_pause();
        let mut due = began + pause.longest;
        if mem::take(&mut self.is_outdated) {
            due = due.min(now);
        }
        loop {
            match self.messages.recv_timeout(until(due)) {
                Err(RecvTimeoutError::Timeout) => return true,
                Ok(Message::ReadSoon) => due = due.min(began + pause.shortest),
                Ok(Message::ReadNow) => due = due.min(now),
                Ok(Message::ReadReturned(_)) => {} // cannot happen: no read is in progress
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Calls `on_change`. Catches panics of the callback and the probe, which are the caller's
    /// code, so that polling continues. The process's panic hook has reported them.
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
        // Without the lock, because the probe is the caller's code.
        if let Fabric::NoAnswer { call, .. } = &mut reading.fabric {
            *call = self.probe.current_call();
        }
        reading
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
