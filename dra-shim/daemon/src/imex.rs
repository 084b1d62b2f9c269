//! The process `nvidia-imex`.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compute_domain_api::driver_managed::{DRIVER_TOO_OLD_HINT, driver_too_old};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use nvml_clique::{DriverRoot, RootProgram, command, library_version};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::info;

use crate::core::facts::{DRIVER_TOO_OLD, Exit};

/// A longer line is logged in pieces.
const MAX_LINE: u64 = 4096;

/// How long to wait for its remaining output after it has exited: a child process may keep the pipe open.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

/// The driver's error if another process holds the IMEX session.
const IN_USE: &str = "NV_ERR_IN_USE";

/// The process. The kernel kills it when this daemon dies.
#[derive(Debug)]
pub(crate) struct Imex {
    child: Child,
    pid: Pid,
    output: Arc<Mutex<Output>>,
    readers: Vec<JoinHandle<()>>,
}

/// Facts from its output.
#[derive(Debug, Default)]
struct Output {
    in_use: bool,
    last_line: String,
}

// === impl Imex ===

impl Imex {
    /// Starts it. Must be called on the main thread: it dies with the thread that starts it.
    ///
    /// # Errors
    /// What is missing and the searched paths, as a sentence.
    // req: DAEMON-2, DAEMON-7
    pub(crate) fn start(root: &DriverRoot, config: &Path) -> Result<Self, String> {
        let program = RootProgram::find(root, "nvidia-imex")
            .map_err(|error| format!("{error}; {}", error.hint()))?;
        let mut command = program.command();
        command
            .arg("-c")
            .arg(config)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command::die_with_this_thread(&mut command);
        let failed = |error: io::Error| format!("cannot run {program}: {error}");
        let mut child = tokio::process::Command::from(command)
            .spawn()
            .map_err(failed)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        info!(%program, pid, "nvidia-imex has started");
        let output = Arc::new(Mutex::new(Output::default()));
        let stdout = child.stdout.take().map(|it| read(it, Arc::clone(&output)));
        let stderr = child.stderr.take().map(|it| read(it, Arc::clone(&output)));
        Ok(Self {
            child,
            pid: Pid::from_raw(pid),
            output,
            readers: stdout.into_iter().chain(stderr).collect(),
        })
    }

    /// Sends a signal. Ignores a process that has exited: [`ended`](Self::ended) reports that.
    pub(crate) fn signal(&self, signal: Signal) {
        // Not reaped yet, so its PID cannot be reused.
        if self.child.id().is_some() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Kills it and its child processes.
    pub(crate) fn kill(&self) {
        if self.child.id().is_some() {
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until it has exited. May be cancelled and called again.
    pub(crate) async fn ended(&mut self) -> Exit {
        let status = self.child.wait().await;
        while let Some(reader) = self.readers.last_mut() {
            // The panic hook has logged a panic of the reader.
            let _ = timeout(OUTPUT_TIMEOUT, reader).await;
            self.readers.pop();
        }
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        Exit::new(status, output.in_use, output.last_line.clone())
    }
}

impl Exit {
    fn new(status: io::Result<ExitStatus>, in_use: bool, last_line: String) -> Self {
        let (how, class) = match status {
            Ok(status) => describe(status),
            Err(error) => (format!("unknown exit status: {error}"), "code"),
        };
        Self {
            how,
            class: if in_use { "in-use" } else { class },
            in_use,
            last_line,
        }
    }

    pub(crate) fn not_started(reason: String) -> Self {
        Self::without_start("not-started", reason)
    }

    /// The error if this driver's `nvidia-imex` is too old for the node list; `None` if it is not, or if the driver is
    /// unknown.
    // req: DAEMON-11
    pub(crate) fn of_old_driver(root: &DriverRoot) -> Option<Self> {
        let library = root.find_library().ok()?;
        let reason = driver_too_old(library_version(&library)?)?;
        let how = format!("{reason}; {DRIVER_TOO_OLD_HINT}");
        Some(Self::without_start(DRIVER_TOO_OLD, how))
    }

    fn without_start(class: &'static str, how: String) -> Self {
        Self {
            how,
            class,
            in_use: false,
            last_line: String::new(),
        }
    }
}

// req: DAEMON-5
fn describe(status: ExitStatus) -> (String, &'static str) {
    if let Some(number) = status.signal() {
        let name =
            Signal::try_from(number).map_or_else(|_| number.to_string(), |it| it.to_string());
        let why = if number == Signal::SIGKILL as i32 {
            ", manually or by the OOM killer"
        } else {
            ""
        };
        return (format!("killed by {name}{why}"), "signal");
    }
    match status.code() {
        Some(0) => ("exit code 0, as after SIGTERM".to_owned(), "code"),
        Some(127) => (
            "exit code 127: a library of nvidia-imex is missing in the driver root".to_owned(),
            "code",
        ),
        code => (format!("exit code {}", code.unwrap_or(-1)), "code"),
    }
}

/// Copies each line of its output to this daemon's log.
// req: DAEMON-9
fn read(
    stream: impl AsyncRead + Unpin + Send + 'static,
    output: Arc<Mutex<Output>>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut stream)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .await
        {
            let text = printable(&line);
            line.clear();
            if text.is_empty() {
                continue;
            }
            info!(target: "nvidia-imex", "{text}");
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.in_use |= text.contains(IN_USE);
            output.last_line = text;
        }
    })
}

/// Replaces control characters, so that no terminal sequence gets into the log.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: DAEMON-5
    #[test]
    fn an_exit_is_described_in_words() {
        for (raw, how, class) in [
            (0, "exit code 0, as after SIGTERM", "code"),
            (1 << 8, "exit code 1", "code"),
            (11, "killed by SIGSEGV", "signal"),
            (
                9,
                "killed by SIGKILL, manually or by the OOM killer",
                "signal",
            ),
        ] {
            let described = describe(ExitStatus::from_raw(raw));
            assert_eq!(described, (how.to_owned(), class));
        }
        let status = || Ok(ExitStatus::from_raw(1 << 8));
        let exit = Exit::new(status(), false, "no line for me".to_owned());
        assert_eq!(
            exit.sentence(),
            "nvidia-imex has exited (exit code 1); last line of its output: no line for me"
        );
        let exit = Exit::new(status(), true, String::new());
        assert!(exit.sentence().contains("NV_ERR_IN_USE"), "{exit:?}");
        assert_eq!(exit.class, "in-use");
    }

    #[tokio::test]
    async fn lines_of_any_length_and_bytes_are_read_to_the_end() {
        let output = Arc::new(Mutex::new(Output::default()));
        let mut bytes = vec![b'x'; 10_000];
        bytes.extend(b"\n\n\xff NV_ERR_IN_USE \x1b[31m\nlast");
        read(std::io::Cursor::new(bytes), Arc::clone(&output))
            .await
            .unwrap();
        let output = output.lock().unwrap();
        assert!(output.in_use);
        assert_eq!(output.last_line, "last");
    }
}
