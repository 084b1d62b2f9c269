//! A fabric value that is always at hand, whatever NVML does.
//!
//! Two threads: one only reads, the other decides when, and notices when the
//! first does not come back. A read that hangs is reported and waited for; no
//! second one is begun beside it, because a driver that hangs one call hangs
//! the next.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fabric::Fabric;
use crate::gpu::Gpu;
use crate::nvml::NvmlFailure;
use crate::probe::{FabricProbe, ProbeError};
use crate::unsettled::Unsettled;

/// How often to read, and when to call a read hung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchConfig {
    /// Pause between reads while the value is not settled.
    unsettled: Duration,
    /// Pause between reads once it is.
    settled: Duration,
    /// A read that takes longer is reported as [`Fabric::NoAnswer`].
    hung_after: Duration,
}

/// The last value, and how fresh it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The value to act on.
    pub fabric: Fabric,
    /// The GPUs when NVML last enumerated them, which may be before `fabric`
    /// was read; `None` if it never did since the watch began.
    pub gpus: Option<Arc<[Gpu]>>,
    /// Time since the last read that came back, whatever it said; `None`
    /// before the first.
    pub age: Option<Duration>,
}

/// Repeats a probe's read until dropped.
///
/// # Guarantees
///
/// * At most one read is under way, ever; a hung one is neither joined nor doubled.
/// * [`last`](Self::last) never waits for NVML.
/// * Dropping ends the watch at once. A read that is under way is left to end
///   on its own; its answer is discarded.
pub struct FabricWatch {
    shared: Arc<Shared>,
    events: Sender<Event>,
}

type Answer = Result<Vec<Gpu>, ProbeError>;

enum Event {
    Answer(Answer),
    Stop,
}

struct Shared {
    state: Mutex<State>,
    probe: Arc<dyn FabricProbe>,
}

#[derive(Debug)]
struct State {
    fabric: Fabric,
    gpus: Option<Arc<[Gpu]>>,
    answered: Option<Instant>,
    /// When the read under way began, once it counts as hung.
    hung_since: Option<Instant>,
}

// === impl WatchConfig ===

impl Default for WatchConfig {
    /// Every second while unsettled, every 30 s after, hung after 10 s: NVML
    /// takes seconds to initialise where no persistence daemon runs.
    fn default() -> Self {
        Self {
            unsettled: Duration::from_secs(1),
            settled: Duration::from_secs(30),
            hung_after: Duration::from_secs(10),
        }
    }
}

impl WatchConfig {
    /// Pause between reads while unsettled, missing or failing: how late a
    /// recovery is noticed, against one NVML session per pause.
    #[must_use]
    pub fn unsettled(self, pause: Duration) -> Self {
        Self {
            unsettled: pause,
            ..self
        }
    }

    /// Pause between reads once settled: how late a lost driver or a moved
    /// partition is noticed.
    #[must_use]
    pub fn settled(self, pause: Duration) -> Self {
        Self {
            settled: pause,
            ..self
        }
    }

    /// How long a read may take before it is reported as hung.
    #[must_use]
    pub fn hung_after(self, limit: Duration) -> Self {
        Self {
            hung_after: limit,
            ..self
        }
    }
}

// === impl FabricWatch ===

impl FabricWatch {
    /// Starts reading at once.
    ///
    /// `on_change` is called, on the watch's own thread, with each value that
    /// differs from the one before (time and call in [`Fabric::NoAnswer`] aside). It
    /// must not block. To bridge into async code, send the reading into a
    /// channel from it. If it panics, the panic hook reports it as any other,
    /// that change is lost to it and the watch goes on.
    ///
    /// Fails only if a thread cannot be started.
    pub fn spawn(
        probe: impl FabricProbe,
        config: WatchConfig,
        on_change: impl FnMut(&Reading) + Send + 'static,
    ) -> io::Result<Self> {
        let probe: Arc<dyn FabricProbe> = Arc::new(probe);
        let shared = Arc::new(Shared::new(Arc::clone(&probe)));
        let (events, inbox) = channel();
        let (ask, asked) = channel();
        let answers = events.clone();
        thread::Builder::new()
            .name("fabric-probe".to_owned())
            .spawn(move || answer_questions(&*probe, &asked, &answers))?;
        let watch = Watch {
            shared: Arc::clone(&shared),
            config,
            on_change,
            ask,
            inbox,
        };
        thread::Builder::new()
            .name("fabric-watch".to_owned())
            .spawn(move || watch.run())?;
        Ok(Self { shared, events })
    }

    /// The last value; [`Unsettled::NotReadYet`] before the first.
    pub fn last(&self) -> Reading {
        self.shared.reading()
    }
}

impl fmt::Debug for FabricWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FabricWatch")
            .field("last", &self.last())
            .finish_non_exhaustive()
    }
}

impl Drop for FabricWatch {
    fn drop(&mut self) {
        // An error means that the watch has already ended.
        let _ = self.events.send(Event::Stop);
    }
}

/// The probe thread: one read per question, until nobody can ask any more.
fn answer_questions(probe: &dyn FabricProbe, asked: &Receiver<()>, answers: &Sender<Event>) {
    while asked.recv().is_ok() {
        let answer = catch_unwind(AssertUnwindSafe(|| probe.read())).unwrap_or_else(|panic| {
            Err(ProbeError::Nvml(NvmlFailure::Panicked {
                message: panic_message(&*panic),
            }))
        });
        if answers.send(Event::Answer(answer)).is_err() {
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

/// What the watching thread owns.
struct Watch<F> {
    shared: Arc<Shared>,
    config: WatchConfig,
    on_change: F,
    ask: Sender<()>,
    inbox: Receiver<Event>,
}

// === impl Watch ===

impl<F: FnMut(&Reading)> Watch<F> {
    fn run(mut self) {
        while self.ask.send(()).is_ok() {
            let Some(answer) = self.await_answer() else {
                return;
            };
            if self.shared.lock().apply(answer) {
                self.tell();
            }
            // No question is open, so all that can arrive is the end.
            match self.inbox.recv_timeout(self.pause()) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Waits for the open question's answer as long as it takes, and says so
    /// when that is long. `None` when the watch has ended.
    fn await_answer(&mut self) -> Option<Answer> {
        let began = Instant::now();
        let event = match self.inbox.recv_timeout(self.config.hung_after) {
            Ok(event) => event,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                self.shared.lock().hung_since = Some(began);
                self.tell();
                self.inbox.recv().ok()?
            }
        };
        match event {
            Event::Answer(answer) => Some(answer),
            Event::Stop => None,
        }
    }

    fn pause(&self) -> Duration {
        if self.shared.lock().fabric.is_settled() {
            self.config.settled
        } else {
            self.config.unsettled
        }
    }

    /// The caller's code, callback and probe, may panic, and then only it is
    /// the worse for it: a watch that ended would leave its last value standing
    /// for ever. The process's panic hook has told of it by then.
    fn tell(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            (self.on_change)(&self.shared.reading());
        }));
    }
}

// === impl Shared ===

impl Shared {
    fn new(probe: Arc<dyn FabricProbe>) -> Self {
        Self {
            probe,
            state: Mutex::new(State {
                fabric: Fabric::Unsettled(Unsettled::NotReadYet),
                gpus: None,
                answered: None,
                hung_since: None,
            }),
        }
    }

    /// Every change of the state is a whole one, so a poisoned lock guards
    /// nothing worse than the value before.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> Reading {
        let state = self.lock();
        Reading {
            fabric: match state.hung_since {
                Some(since) => Fabric::NoAnswer {
                    waited: since.elapsed(),
                    call: self.probe.call_under_way(),
                },
                None => state.fabric.clone(),
            },
            gpus: state.gpus.clone(),
            age: state.answered.map(|at| at.elapsed()),
        }
    }
}

// === impl State ===

impl State {
    /// Takes an answer in; says whether the value changed by it.
    fn apply(&mut self, answer: Answer) -> bool {
        let (fabric, gpus) = match answer {
            Ok(gpus) => (Fabric::of(&gpus), Some(Arc::from(gpus))),
            Err(error) => (Fabric::from(error), self.gpus.clone()),
        };
        let was_hung = self.hung_since.take().is_some();
        let changed = was_hung || fabric != self.fabric || gpus != self.gpus;
        self.fabric = fabric;
        self.gpus = gpus;
        self.answered = Some(Instant::now());
        changed
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
