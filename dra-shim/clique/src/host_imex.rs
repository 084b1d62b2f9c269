//! Readiness check of the host IMEX daemon, the `nvidia-imex` that the administrator runs on
//! the host.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use dra_common::{Advice, OneLine, joined_lines};
use nvml_session::command::{self, Error};
use nvml_session::{DriverFileNotFound, DriverRoot, RootProgram, RootProgramError};

/// The host IMEX daemon (`nvidia-imex`), queried with `nvidia-imex-ctl`.
///
/// Program and socket are in the root of the operating system that runs the daemon. That is
/// the host's root, which may differ from the driver's: a driver container has neither program
/// nor socket.
///
/// If the DRA driver runs the daemon, use [`outside`](Self::outside): the program is in the driver root, but the
/// socket is in the caller's root.
#[derive(Debug, Clone)]
pub struct HostImex {
    root: DriverRoot,
    socket: PathBuf,
    runs: RunMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunMode {
    /// In its root, with chroot.
    Inside,
    /// In the caller's root, with the loader of the program's root.
    Outside,
}

/// Error of a daemon that does not count as ready.
#[non_exhaustive]
#[derive(Debug, thiserror::Error, Advice)]
pub enum HostImexError {
    /// There is no `nvidia-imex-ctl` below the root.
    #[error("cannot query the host's nvidia-imex: no nvidia-imex-ctl under {}", OneLine(.0.root.display()))]
    #[advice(
        code = "imex-ctl-missing",
        hint = "install the nvidia-imex package of the driver's branch on the host, or leave the host socket path empty"
    )]
    ToolMissing(#[source] DriverFileNotFound),
    /// `nvidia-imex-ctl` exists, but cannot be run outside of its root.
    #[error("cannot run nvidia-imex-ctl")]
    #[advice(from, code = "imex-ctl-not-runnable")]
    Program(#[source] RootProgramError),
    /// The program could not be run.
    #[error("cannot run {} in root {}", OneLine(tool.display()), OneLine(root.display()))]
    #[advice(
        code = "imex-ctl-not-started",
        hint = "install nvidia-imex-ctl with all its libraries under the host's root, and give this process CAP_SYS_CHROOT"
    )]
    Start {
        /// The program's path inside the root.
        tool: PathBuf,
        /// The root.
        root: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The program did not end in time, and was killed with its children.
    #[error("nvidia-imex-ctl -q did not finish within {} s", timeout.as_secs_f32())]
    #[advice(
        code = "imex-ctl-timed-out",
        hint = "run `nvidia-imex-ctl -q` on the host; restart the nvidia-imex service if it hangs there too"
    )]
    TimedOut {
        /// The timeout.
        timeout: Duration,
    },
    /// The program failed, usually because the daemon is not listening.
    #[error(
        "nvidia-imex-ctl -q for {} failed ({status}){}",
        OneLine(socket.display()),
        output(stdout, stderr)
    )]
    #[advice(
        code = "imex-ctl-failed",
        hint = "check the service on the host (systemctl status nvidia-imex); in its config.cfg, set IMEX_CMD_ENABLED=1 and IMEX_CMD_UNIX_DOMAIN_PATH to this socket"
    )]
    Failed {
        /// The daemon's socket.
        socket: PathBuf,
        /// The exit status.
        status: ExitStatus,
        /// The beginning of its standard output, as one line.
        stdout: String,
        /// The beginning of its standard error, as one line.
        stderr: String,
    },
    /// The daemon answered, but not with `READY`.
    #[error(
        "the host's nvidia-imex at {} is not READY{}",
        OneLine(socket.display()),
        output(stdout, stderr)
    )]
    #[advice(
        code = "imex-not-ready",
        hint = "run nvidia-imex-ctl -N on the host to see which peers are missing; every node of nodes_config.cfg must run nvidia-imex"
    )]
    NotReady {
        /// The daemon's socket.
        socket: PathBuf,
        /// The answer, e.g. `INITIALIZING` or `WAITING_FOR_PEERS`.
        stdout: String,
        /// The beginning of standard error, which does not affect the result.
        stderr: String,
    },
}

const TOOL: &str = "nvidia-imex-ctl";
const READY: &[u8] = b"READY";

/// Number of bytes kept of each output stream; the answer is one word.
const MAX_OUTPUT: usize = 4096;

// === impl HostImex ===

impl HostImex {
    /// Creates a check of the daemon that listens on `socket`. Both `socket`
    /// (`IMEX_CMD_UNIX_DOMAIN_PATH` of the daemon's configuration) and `nvidia-imex-ctl` are
    /// looked up inside `root`: the operating system that runs the daemon, at its path in this
    /// process. Does no I/O.
    pub fn new(root: DriverRoot, socket: impl Into<PathBuf>) -> Self {
        Self {
            root,
            socket: socket.into(),
            runs: RunMode::Inside,
        }
    }

    /// Creates a check of the daemon that listens on `socket`, a path in the caller's root. `nvidia-imex-ctl` is
    /// looked up below `root` and the roots [within it](DriverRoot::with_nested), and run with the loader of its
    /// root, which needs no capability. Does no I/O.
    pub fn outside(root: DriverRoot, socket: impl Into<PathBuf>) -> Self {
        Self {
            root,
            socket: socket.into(),
            runs: RunMode::Outside,
        }
    }

    /// Succeeds only if the daemon answers exactly `READY` within `timeout`.
    ///
    /// Blocks for up to `timeout`: it runs `nvidia-imex-ctl -q`, with chroot unless the root is
    /// `/` (needs `CAP_SYS_CHROOT`). Call it neither on an async worker nor while holding a
    /// lock.
    ///
    /// # Errors
    ///
    /// Any [`HostImexError`]. All of them may be transient, so a program that waits for the
    /// daemon retries.
    // req: NODE-13
    pub fn check_ready(&self, timeout: Duration) -> Result<(), HostImexError> {
        self.query(self.tool()?, timeout)
    }

    /// The tool as a command in its root, without arguments.
    fn tool(&self) -> Result<Command, HostImexError> {
        if self.runs == RunMode::Outside {
            let program = RootProgram::find(&self.root, TOOL)?;
            return Ok(program.command());
        }
        let found = self
            .root
            .find_tool(TOOL)
            .map_err(HostImexError::ToolMissing)?;
        let tool = self.path_inside(&found);
        let mut command = Command::new(&tool);
        if self.root.path() != Path::new("/") {
            command::chroot(&mut command, self.root.path())
                .map_err(|source| self.not_started(&tool, source))?;
        }
        Ok(command)
    }

    fn query(&self, mut command: Command, timeout: Duration) -> Result<(), HostImexError> {
        let mut socket = OsString::from("--u=");
        socket.push(&self.socket);
        let tool = PathBuf::from(command.get_program());
        // This process's environment (LD_PRELOAD, locale) must not change the answer.
        command
            .arg("-q")
            .arg(socket)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let run = command::run(command, timeout, MAX_OUTPUT).map_err(|error| match error {
            Error::Start(source) => self.not_started(&tool, source),
            Error::TimedOut => HostImexError::TimedOut { timeout },
        })?;
        let socket = self.socket.clone();
        let shortened = |output: &[u8]| joined_lines(&String::from_utf8_lossy(output), 200);
        let (stdout, stderr) = (shortened(&run.stdout), shortened(&run.stderr));
        if !run.status.success() {
            let status = run.status;
            return Err(HostImexError::Failed {
                socket,
                status,
                stdout,
                stderr,
            });
        }
        if run.stdout.trim_ascii() != READY {
            return Err(HostImexError::NotReady {
                socket,
                stdout,
                stderr,
            });
        }
        Ok(())
    }

    fn not_started(&self, tool: &Path, source: io::Error) -> HostImexError {
        HostImexError::Start {
            tool: tool.to_owned(),
            root: self.root.path().to_owned(),
            source,
        }
    }

    /// Converts a path below the root to a path inside the root.
    fn path_inside(&self, found: &Path) -> PathBuf {
        let relative = found.strip_prefix(self.root.path()).unwrap_or(found);
        Path::new("/").join(relative)
    }
}

impl From<RootProgramError> for HostImexError {
    fn from(error: RootProgramError) -> Self {
        match error {
            RootProgramError::NotFound(missing) => Self::ToolMissing(missing),
            other => Self::Program(other),
        }
    }
}

/// Formats a program's output as the end of a message.
fn output(stdout: &str, stderr: &str) -> String {
    match (stdout, stderr) {
        ("", "") => ": no output".to_owned(),
        ("", stderr) => format!(": {stderr}"),
        (stdout, "") => format!(": {stdout}"),
        (stdout, stderr) => format!(": {stdout} ({stderr})"),
    }
}

#[cfg(test)]
#[path = "host_imex_tests.rs"]
mod tests;
