//! The host IMEX daemon, the `nvidia-imex` that the operator runs on the host: is
//! it ready?

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use dra_common::{Advice, OneLine, joined_lines};

use crate::command::{self, Error};
use crate::driver_root::DriverRoot;
use crate::not_found::DriverFileNotFound;
use crate::root_program::{RootProgram, RootProgramError};

/// The host IMEX daemon (`nvidia-imex`), asked through its own `nvidia-imex-ctl`.
///
/// The program and the socket belong to one root, that of the operating system
/// that runs the daemon. That is the host's root, which need not be the
/// driver's: a driver container has neither.
///
/// Where the driver runs the daemon, [`outside`](Self::outside) of any root but the caller's, only the program
/// is the driver root's.
#[derive(Debug, Clone)]
pub struct HostImex {
    root: DriverRoot,
    socket: PathBuf,
    runs: Runs,
}

/// How the program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// In its root, which is entered.
    Inside,
    /// In the caller's root, by the loader of its own.
    Outside,
}

/// Why the daemon does not count as ready.
#[non_exhaustive]
#[derive(Debug, thiserror::Error, Advice)]
pub enum HostImexError {
    /// There is no `nvidia-imex-ctl` below the root.
    #[error("cannot ask the host's nvidia-imex: no nvidia-imex-ctl under {}", OneLine(.0.root.display()))]
    #[advice(
        code = "imex-ctl-missing",
        hint = "install the nvidia-imex package of the driver's branch on the host, or leave the host socket path empty"
    )]
    ToolMissing(#[source] DriverFileNotFound),
    /// There is one, and it cannot be run outside of its root.
    #[error("cannot run nvidia-imex-ctl")]
    #[advice(from, code = "imex-ctl-not-runnable")]
    Program(#[source] RootProgramError),
    /// The program could not be run.
    #[error("cannot run {} in root {}", OneLine(tool.display()), OneLine(root.display()))]
    #[advice(
        code = "imex-ctl-not-started",
        hint = "the program and its libraries must be complete under the host's root, and entering it needs CAP_SYS_CHROOT"
    )]
    Start {
        /// The program, as seen from inside the root.
        tool: PathBuf,
        /// The root it was to run in.
        root: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The program did not end in time; it and its children were killed.
    #[error("nvidia-imex-ctl -q did not answer within {} s", timeout.as_secs_f32())]
    #[advice(
        code = "imex-ctl-timed-out",
        hint = "run `nvidia-imex-ctl -q` on the host; restart the nvidia-imex service if it hangs there too"
    )]
    TimedOut {
        /// How long it was given.
        timeout: Duration,
    },
    /// The program failed, usually because the daemon does not listen.
    #[error(
        "nvidia-imex-ctl -q for {} failed ({status}){}",
        OneLine(socket.display()),
        output(stdout, stderr)
    )]
    #[advice(
        code = "imex-ctl-failed",
        hint = "on the host: systemctl status nvidia-imex; its config.cfg needs IMEX_CMD_ENABLED=1 and IMEX_CMD_UNIX_DOMAIN_PATH set to this socket"
    )]
    Failed {
        /// The socket it was to use.
        socket: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of its standard output, as one line.
        stdout: String,
        /// The beginning of its standard error, as one line.
        stderr: String,
    },
    /// The daemon answered, and the answer is not `READY`.
    #[error(
        "the host's nvidia-imex at {} is not READY{}",
        OneLine(socket.display()),
        output(stdout, stderr)
    )]
    #[advice(
        code = "imex-not-ready",
        hint = "on the host: nvidia-imex-ctl -N shows which peers are missing; every node of nodes_config.cfg must run nvidia-imex"
    )]
    NotReady {
        /// The socket that was asked.
        socket: PathBuf,
        /// The answer, e.g. `INITIALIZING` or `WAITING_FOR_PEERS`.
        stdout: String,
        /// The beginning of standard error; does not affect the verdict.
        stderr: String,
    },
}

const TOOL: &str = "nvidia-imex-ctl";
const READY: &[u8] = b"READY";

/// How much of each output stream is kept; the answer is one word.
const MAX_OUTPUT: usize = 4096;

// === impl HostImex ===

impl HostImex {
    /// The daemon that listens on `socket`. Both the path of the socket
    /// (`IMEX_CMD_UNIX_DOMAIN_PATH` of the daemon's configuration) and
    /// `nvidia-imex-ctl` are looked up inside `root`, the operating system that
    /// runs the daemon as this process sees it. Does no I/O.
    pub fn new(root: DriverRoot, socket: impl Into<PathBuf>) -> Self {
        Self {
            root,
            socket: socket.into(),
            runs: Runs::Inside,
        }
    }

    /// The daemon that listens on `socket`, a path of the caller's own. `nvidia-imex-ctl` is looked up below
    /// `root` and the roots [within it](DriverRoot::with_nested), and run by the loader of the root that has
    /// it: no capability is needed. Does no I/O.
    pub fn outside(root: DriverRoot, socket: impl Into<PathBuf>) -> Self {
        Self {
            root,
            socket: socket.into(),
            runs: Runs::Outside,
        }
    }

    /// Ok if and only if the daemon answers exactly `READY` within `timeout`.
    ///
    /// Blocks for up to `timeout`: it runs `nvidia-imex-ctl -q`, in a changed
    /// root unless that is `/` (needs `CAP_SYS_CHROOT`). Call it neither on an
    /// async worker nor while holding a lock.
    ///
    /// # Errors
    ///
    /// Any [`HostImexError`]. All of them may be transient: a program that waits
    /// for the daemon calls again.
    // req: NODE-13
    pub fn check_ready(&self, timeout: Duration) -> Result<(), HostImexError> {
        self.query(self.tool()?, timeout)
    }

    /// The tool as a command that will run in its root, still without arguments.
    fn tool(&self) -> Result<Command, HostImexError> {
        if self.runs == Runs::Outside {
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

    /// Asks for the daemon's state through `command`.
    fn query(&self, mut command: Command, timeout: Duration) -> Result<(), HostImexError> {
        let mut socket = OsString::from("--u=");
        socket.push(&self.socket);
        let tool = PathBuf::from(command.get_program());
        // Nothing in our environment (LD_PRELOAD, locale) may change the answer.
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

    /// A path below the root as a process inside the root names it.
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

/// The end of a sentence that quotes a program's output.
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
