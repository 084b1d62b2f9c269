//! A process with an NVML session, whose library may abort or hang.
//!
//! ```text
//! program ── NvmlProcess::open ──> the same program, as nvml-session-process
//!    │                                   │ Nvml::open
//!    ├── Query, a line of JSON ─────────>│
//!    │<───── its name, before each call ─┤ calls of NVML
//!    │<───────── Fact, a line of JSON ───┤
//! ```

mod answer;
mod events;
mod query;
mod serve;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::command::die_with_this_thread;
use crate::current_call::ANNOUNCED;
use crate::driver_root::DriverRoot;
use crate::fact::{Fact, Failure};

pub use events::{EventGpu, Report};
pub use query::{Property, Query};
pub(crate) use serve::Task;
pub use serve::serve_if_started;

/// How a program starts itself as a process with a session.
#[derive(Debug, Clone)]
pub struct SessionProgram {
    path: PathBuf,
    args: Vec<OsString>,
    deadline: Duration,
    until: Option<Instant>,
}

/// A process with an NVML session.
///
/// A call that does not return in time, and a library that ends its process, end this process only. Each later
/// [`ask`](Self::ask) then fails at once. Dropping it ends the process.
#[derive(Debug)]
pub struct NvmlProcess {
    child: Child,
    socket: BufReader<UnixStream>,
    deadline: Duration,
    until: Option<Instant>,
    /// Why the process was ended or has ended.
    ended: Option<Failure>,
}

/// This program.
const THIS: &str = "/proc/self/exe";

/// Maximum length of an answer: a MIG device, the longest, has a few hundred bytes.
const MAX_ANSWER: usize = 64 << 10;

/// How long a killed process may take to end. One in an uninterruptible call of the driver does not end.
const KILL_TIME: Duration = Duration::from_secs(1);

// === impl SessionProgram ===

impl SessionProgram {
    /// This program, whose `main` begins with [`serve_if_started`]. Each query may take `deadline`.
    pub fn this(deadline: Duration) -> Self {
        Self::new(THIS, [], deadline)
    }

    /// Another program that calls [`serve_if_started`] if it is run with `args`. A test program does so in a test that
    /// `args` select.
    pub fn new<'a>(
        path: impl Into<PathBuf>,
        args: impl IntoIterator<Item = &'a str>,
        deadline: Duration,
    ) -> Self {
        Self {
            path: path.into(),
            args: args.into_iter().map(OsString::from).collect(),
            deadline,
            until: None,
        }
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The same, for a process whose calls all end by a time.
    #[must_use]
    pub fn until(&self, time: Instant) -> Self {
        Self {
            until: Some(time),
            ..self.clone()
        }
    }
}

// === impl NvmlProcess ===

impl NvmlProcess {
    /// Starts the process and opens a session of the library below `root`.
    ///
    /// The kernel kills the process when the calling thread ends.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or the session cannot be opened in time. [`SessionProgram::this`] in a program
    /// that has not called [`serve_if_started`] is not started. Before that, check
    /// [`DriverRoot::find_library`]: its error has the reason for each path.
    pub fn open(program: &SessionProgram, root: &DriverRoot) -> Result<Self, Failure> {
        let mut process = Self::start(program)?;
        let task = Task::Queries {
            root: root.path().to_owned(),
        };
        match process.exchange::<Value>(&task, "nvmlInitWithFlags") {
            Fact::Known(_) => Ok(process),
            Fact::Failed(failure) => Err(failure),
            Fact::Absent => Err(Failure::new("nvmlInitWithFlags", "does not exist")),
        }
    }

    /// Starts the process, which waits for its [`Task`].
    pub(crate) fn start(program: &SessionProgram) -> Result<Self, Failure> {
        let start =
            |error: io::Error| Failure::new("the NVML process", format!("cannot start: {error}"));
        if program.path == Path::new(THIS) && !serve::this_program_serves() {
            let reason = "main of this program does not begin with nvml_session::serve_if_started";
            return Err(start(io::Error::other(reason)));
        }
        let (ours, theirs) = UnixStream::pair().map_err(start)?;
        let mut command = Command::new(&program.path);
        command
            .arg0(serve::NAME)
            .args(&program.args)
            .env(serve::MARK, "1")
            .stdin(OwnedFd::from(theirs))
            // The library may print. A process that cannot be killed must not hold the caller's output open.
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        die_with_this_thread(&mut command);
        let child = command.spawn().map_err(start)?;
        // The command holds the other end of the socket.
        drop(command);
        Ok(Self {
            child,
            socket: BufReader::new(ours),
            deadline: program.deadline,
            until: program.until,
            ended: None,
        })
    }

    /// Makes a call in the process. `T` is the type that [`Query`] names.
    pub fn ask<T: DeserializeOwned>(&mut self, query: Query) -> Fact<T> {
        if let Some(ended) = &self.ended {
            return Fact::Failed(Failure::new(
                query.call(),
                format!("was not called, because {ended}"),
            ));
        }
        self.exchange(&query, query.call())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> &UnixStream {
        self.socket.get_ref()
    }

    /// Why the process no longer serves: the call that did not return, or that ended it.
    pub fn ended(&self) -> Option<&Failure> {
        self.ended.as_ref()
    }

    /// `call` is the first call that the request needs.
    fn exchange<T: DeserializeOwned>(&mut self, request: &impl Serialize, call: &str) -> Fact<T> {
        let mut call = call.to_owned();
        let received = self
            .send(request)
            .and_then(|()| self.receive_answer(&mut call));
        self.decode(received, &call)
    }

    /// The answer, or what has happened to the process in the call.
    pub(crate) fn decode<T: DeserializeOwned>(
        &mut self,
        received: io::Result<Vec<u8>>,
        call: &str,
    ) -> Fact<T> {
        match received {
            Ok(answer) if answer.is_empty() => self.gone(call),
            Ok(answer) => serde_json::from_slice(&answer).unwrap_or_else(|error| {
                let reason = format!("returned a value of the wrong type: {error}");
                Fact::Failed(Failure::new(call, reason))
            }),
            Err(error) if is_timeout(&error) => self.overdue(call),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.kill();
                self.end(call, error.to_string())
            }
            // The process ended before it read the request, or while it answered.
            Err(_) => self.gone(call),
        }
    }

    /// Reads lines up to the answer. `call` becomes the last call that was announced.
    fn receive_answer(&mut self, call: &mut String) -> io::Result<Vec<u8>> {
        let end = self.end_of_call();
        loop {
            let line = self.receive_line(end)?;
            match line.strip_prefix(ANNOUNCED.as_bytes()) {
                Some(name) => *call = String::from_utf8_lossy(name).into_owned(),
                None => return Ok(line),
            }
        }
    }

    /// Reads a line, or what comes before the end. A library that writes on the socket without end is no answer.
    pub(crate) fn receive_line(&mut self, end: Instant) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.get_ref().set_read_timeout(Some(rest))?;
            let received = self.socket.fill_buf()?;
            let line_end = received.iter().position(|byte| *byte == b'\n');
            let len = line_end.unwrap_or(received.len());
            answer.extend(received.iter().take(len));
            let is_end = line_end.is_some() || received.is_empty();
            let consumed = len + usize::from(line_end.is_some());
            self.socket.consume(consumed);
            if is_end {
                return Ok(answer);
            }
            if answer.len() > MAX_ANSWER {
                let reason = "returned more than an answer can have";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
    }

    pub(crate) fn end_of_call(&self) -> Instant {
        let end = Instant::now() + self.deadline;
        self.until.map_or(end, |until| until.min(end))
    }

    pub(crate) fn send(&mut self, request: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.socket.get_mut().write_all(&line)
    }

    fn overdue<T>(&mut self, call: &str) -> Fact<T> {
        let mut reason = match self.until {
            Some(until) if until <= Instant::now() => {
                "did not return before the time for all calls was over".to_owned()
            }
            _ => format!("did not return within {} s", self.deadline.as_secs_f32()),
        };
        if self.kill().is_none() {
            reason.push_str(", and its process cannot be killed");
        }
        self.end(call, reason)
    }

    fn gone<T>(&mut self, call: &str) -> Fact<T> {
        let reason = match self.kill() {
            Some(status) => format!("ended its process{}", described(status)),
            None => "closed its connection, and its process cannot be killed".to_owned(),
        };
        self.end(call, reason)
    }

    fn end<T>(&mut self, call: &str, reason: String) -> Fact<T> {
        let failure = Failure::new(call, reason);
        self.ended = Some(failure.clone());
        Fact::Failed(failure)
    }

    /// Kills the process and waits for its end, which closes the socket. `None` if it does not end.
    pub(crate) fn kill(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        // It fails only if the process has ended.
        let _ = self.child.kill();
        let end = Instant::now() + KILL_TIME;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let timeout = (!rest.is_zero()).then_some(rest)?;
            self.socket.get_ref().set_read_timeout(Some(timeout)).ok()?;
            let received = match self.socket.fill_buf() {
                Ok(received) => received.len(),
                Err(error) if is_timeout(&error) => return None,
                Err(_) => 0,
            };
            if received == 0 {
                return self.child.wait().ok();
            }
            self.socket.consume(received);
        }
    }
}

impl Drop for NvmlProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn described(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(number), _) => match Signal::try_from(number) {
            Ok(signal) => format!(" with {signal}"),
            Err(_) => format!(" with signal {number}"),
        },
        (None, Some(code)) => format!(" with exit code {code}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
