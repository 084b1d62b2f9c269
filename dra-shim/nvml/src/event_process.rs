//! A process that waits for the events of GPUs.
//!
//! ```text
//! program ── EventProcess::open ──> the same program
//!    │<── for each GPU: registered? ─────┤
//!    │<── Report, a line of JSON ────────┤ an event, or a sign of life after a wait without one
//! ```
//!
//! NVML holds the GPUs open meanwhile: nobody else can reset them or unload the driver.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::current_call::ANNOUNCED;
use crate::driver_root::DriverRoot;
use crate::fact::{Fact, Failure};
use crate::process::{EventGpu, NvmlProcess, Report, SessionProgram, Task};
use crate::sys::EVENT_WAIT;

/// The call about which nothing is known before the first GPU is registered.
const REGISTER: &str = "nvmlDeviceRegisterEvents";

/// A process that waits for the events of GPUs. Dropping it ends the process, which holds the GPUs.
#[derive(Debug)]
pub struct EventProcess {
    process: NvmlProcess,
    stop: EventStop,
}

/// Whether a GPU has been registered for events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The UUID.
    pub gpu: String,
    /// Why its events are not seen.
    pub failure: Option<Failure>,
}

/// Ends a process that waits for events from another thread.
#[derive(Debug, Clone, Default)]
pub struct EventStop(Arc<Mutex<StopState>>);

#[derive(Debug, Default)]
struct StopState {
    stopped: bool,
    socket: Option<UnixStream>,
}

// === impl EventStop ===

impl EventStop {
    /// Ends the process as soon as possible, even one that is not started yet.
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        if let Some(socket) = state.socket.take() {
            // It fails only if the process has ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn is_stopped(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped
    }

    fn follow(&self, socket: &UnixStream) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.socket = Some(socket.try_clone()?);
        Ok(())
    }
}

// === impl EventProcess ===

impl EventProcess {
    /// Starts the process and registers the GPUs. A GPU that cannot be registered costs only itself: one that hangs or
    /// ends the process, the start of another one.
    ///
    /// The kernel kills the process when the calling thread ends. Each call may take the deadline of `program`; a wait
    /// for events takes half of it.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or the session or the event set cannot be opened in time, or `stop` was used.
    pub fn open(
        program: &SessionProgram,
        root: &DriverRoot,
        gpus: &[EventGpu],
        stop: &EventStop,
    ) -> Result<(Self, Vec<Registered>), Failure> {
        let mut rest = gpus.to_vec();
        let mut ended_it = Vec::new();
        loop {
            let (opened, mut registered) = Self::open_once(program, root, &rest, stop)?;
            if opened.process.ended().is_none() {
                registered.append(&mut ended_it);
                return Ok((opened, registered));
            }
            if let Some(last) = registered.pop() {
                rest.retain(|it| it.uuid != last.gpu);
                ended_it.push(last);
            }
        }
    }

    /// If the process has ended, the last GPU has ended it.
    fn open_once(
        program: &SessionProgram,
        root: &DriverRoot,
        gpus: &[EventGpu],
        stop: &EventStop,
    ) -> Result<(Self, Vec<Registered>), Failure> {
        if stop.is_stopped() {
            return Err(stopped());
        }
        let process = NvmlProcess::start(program)?;
        let start = |error: io::Error| Failure::new("the NVML process", error.to_string());
        stop.follow(process.socket()).map_err(start)?;
        let mut opened = Self {
            process,
            stop: stop.clone(),
        };
        let task = Task::Events {
            root: root.path().to_owned(),
            gpus: gpus.to_vec(),
            wait: program.deadline() / 2,
        };
        opened.process.send(&task).map_err(start)?;
        // The session, then the event set.
        for call in ["nvmlInitWithFlags", "nvmlEventSetCreate"] {
            opened.receive::<Value>(call)?;
        }
        let mut registered = Vec::new();
        for gpu in gpus {
            let failure = opened.receive::<u64>(REGISTER).err();
            if stop.is_stopped() {
                return Err(stopped());
            }
            registered.push(Registered {
                gpu: gpu.uuid.clone(),
                failure,
            });
            if opened.process.ended().is_some() {
                break;
            }
        }
        Ok((opened, registered))
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the next report. It comes within the deadline.
    ///
    /// # Errors
    ///
    /// Why the process has ended. Nothing follows then.
    pub fn receive_report(&mut self) -> Result<Report, Failure> {
        if let Some(ended) = self.process.ended() {
            return Err(ended.clone());
        }
        let report = self.receive(EVENT_WAIT);
        if report.is_err() {
            self.process.kill();
        }
        report
    }

    /// Receives a line that is a fact. Each call before it may take the deadline.
    fn receive<T: DeserializeOwned>(&mut self, call: &str) -> Result<T, Failure> {
        let mut call = call.to_owned();
        let received = loop {
            let end = self.process.end_of_call();
            let line = self.process.receive_line(end);
            match line
                .as_deref()
                .map(|it| it.strip_prefix(ANNOUNCED.as_bytes()))
            {
                Ok(Some(name)) => call = String::from_utf8_lossy(name).into_owned(),
                _ => break line,
            }
        };
        if self.stop.is_stopped() {
            return Err(stopped());
        }
        match self.process.decode(received, &call) {
            Fact::Known(value) => Ok(value),
            Fact::Failed(failure) => Err(failure),
            Fact::Absent => Err(Failure::new(&call, "is not supported")),
        }
    }
}

fn stopped() -> Failure {
    Failure::new("the NVML process", "was stopped")
}
