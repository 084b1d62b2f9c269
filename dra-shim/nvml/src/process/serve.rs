//! The process with a session.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::answer;
use super::events::{self, EventGpu};
use super::query::Query;
use crate::current_call::CurrentCall;
use crate::driver_root::DriverRoot;
use crate::fact::{Fact, Failure};
use crate::nvml::Nvml;
use crate::open_error::OpenError;

/// The environment variable of such a process. An argument would not do: an emulator may replace the first one, and
/// programs parse the others.
pub(super) const MARK: &str = "NVML_SESSION_PROCESS";

/// The name of the process for people, its first argument.
pub(super) const NAME: &str = "nvml-session-process";

/// The first line that the parent sends: what the process does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// It answers queries.
    Queries { root: PathBuf },
    /// It sends the events of GPUs.
    Events {
        root: PathBuf,
        gpus: Vec<EventGpu>,
        /// How long it waits for an event, until it sends a sign of life.
        wait: Duration,
    },
}

/// Whether this process has called [`serve_if_started`].
static CALLED: AtomicBool = AtomicBool::new(false);

/// Serves a session if this process was started as an [`NvmlProcess`](super::NvmlProcess), and then returns its exit
/// code. `None` in all other processes.
///
/// Call it at the beginning of `main`, before other threads and files exist.
#[must_use = "a process with a session must end with this code"]
pub fn serve_if_started() -> Option<ExitCode> {
    CALLED.store(true, Ordering::Relaxed);
    env::var_os(MARK).map(|_| serve())
}

/// Whether this program, started again, would serve a session. Any other program would do its own work once more.
pub(super) fn this_program_serves() -> bool {
    CALLED.load(Ordering::Relaxed)
}

/// Serves a session on the socket that is the standard input.
pub(super) fn serve() -> ExitCode {
    let socket = io::stdin().as_fd().try_clone_to_owned();
    match socket.and_then(|it| serve_on(&UnixStream::from(it))) {
        Ok(()) => ExitCode::SUCCESS,
        // The parent has ended or has given up this process.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Opens a session and does its task, until the parent closes the socket. Announces each call.
fn serve_on(socket: &UnixStream) -> io::Result<()> {
    let mut lines = BufReader::new(socket).lines();
    let Some(task) = lines.next().transpose()? else {
        return Ok(());
    };
    let task: Task = serde_json::from_str(&task)?;
    let (Task::Queries { root } | Task::Events { root, .. }) = &task;
    let calls = CurrentCall::announced_on(socket.try_clone()?);
    let session = match Nvml::tracked(DriverRoot::new(root.clone()), calls).open() {
        Ok(session) => session,
        Err(error) => return answer(socket, &Fact::<Value>::Failed(failure(error))),
    };
    answer(socket, &Fact::Known(Value::Bool(true)))?;
    if let Task::Events { gpus, wait, .. } = &task {
        return events::serve(socket, &session, gpus, *wait);
    }
    for line in lines {
        let query: Query = serde_json::from_str(&line?)?;
        answer(socket, &query.run(&session))?;
    }
    Ok(())
}

fn failure(error: OpenError) -> Failure {
    match error {
        OpenError::Nvml(failure) => failure.into(),
        OpenError::NoLibrary(error) => Failure::new("NVML:", error.to_string()),
    }
}
