//! The `nvidia-imex` that the operator runs on the host: whether it is ready, and
//! which peers it reaches.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use crate::command::{self, Failure};
use crate::imex_peers::{self, ImexNode, Unfit};
use crate::line::{Shown, one_line};
use crate::root::{DriverRoot, NotFound};

/// The host's IMEX daemon, asked through its own `nvidia-imex-ctl`.
///
/// The program and the socket belong to one root, that of the operating system
/// that runs the daemon. That is the host's root, which need not be the
/// driver's: a driver container has neither.
#[derive(Debug, Clone)]
pub struct HostImex {
    root: DriverRoot,
    socket: PathBuf,
}

/// Why the daemon does not count as ready, or its connections are not known.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum HostImexError {
    /// The program to ask with is not there.
    #[error("cannot ask the host's nvidia-imex: no nvidia-imex-ctl under {}", Shown(&.0.root))]
    ToolMissing(#[source] NotFound),
    /// The program could not be run.
    #[error("cannot run {} in root {}", Shown(tool), Shown(root))]
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
    #[error("nvidia-imex-ctl {question} did not answer within {} s", limit.as_secs_f32())]
    TimedOut {
        /// The option it was run with.
        question: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The program failed, usually because the daemon does not listen.
    #[error(
        "nvidia-imex-ctl {question} for {} failed ({status}){}",
        Shown(socket),
        said(stdout, stderr)
    )]
    Failed {
        /// The option it was run with.
        question: &'static str,
        /// The socket it was told to ask.
        socket: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of its output.
        stdout: String,
        /// The beginning of what it complained about.
        stderr: String,
    },
    /// The daemon answered with another word than `READY`.
    #[error(
        "the host's nvidia-imex at {} is not READY{}",
        Shown(socket),
        said(stdout, stderr)
    )]
    NotReady {
        /// The socket that was asked.
        socket: PathBuf,
        /// The answer, e.g. `INITIALIZING` or `WAITING_FOR_PEERS`.
        stdout: String,
        /// The beginning of what it complained about; not part of the decision.
        stderr: String,
    },
    /// What `-N -j` printed is not the JSON that it is known to print.
    #[error(
        "nvidia-imex-ctl -N -j for {} answered in a form that is not known",
        Shown(socket)
    )]
    BadAnswer {
        /// The socket that was asked.
        socket: PathBuf,
        /// What about it.
        #[source]
        source: serde_json::Error,
    },
    /// No entry of the domain is this node, so none was measured by its daemon.
    #[error("the IMEX domain at {} lists this node under none of its own names; it lists {}", Shown(socket), listed.join(", "))]
    NotListed {
        /// The socket that was asked.
        socket: PathBuf,
        /// The hosts that it lists, at most a screenful.
        listed: Vec<String>,
    },
    /// This node is listed, and its daemon measured no link, not even to itself.
    #[error(
        "the IMEX domain at {} lists this node as {host} and tells none of its connections",
        Shown(socket)
    )]
    NotMeasured {
        /// The socket that was asked.
        socket: PathBuf,
        /// The address or name under which it is listed.
        host: String,
    },
}

const TOOL: &str = "nvidia-imex-ctl";
const READY: &[u8] = b"READY";

/// The options of a question, and how much of the answer may matter. `-q`
/// prints a word; `-N -j` some 100 bytes for each pair of nodes, of which a
/// domain has at most a few hundred squared.
struct Question {
    options: &'static [&'static str],
    shown: &'static str,
    keep: usize,
}

const STATE: Question = Question {
    options: &["-q"],
    shown: "-q",
    keep: 4096,
};
const DOMAIN: Question = Question {
    options: &["-N", "-j"],
    shown: "-N -j",
    keep: 16 << 20,
};

// === impl HostImex ===

impl HostImex {
    /// The daemon that listens on `socket`. Both the path of the socket
    /// (`IMEX_CMD_UNIX_DOMAIN_PATH` of the daemon's configuration) and
    /// `nvidia-imex-ctl` are looked up inside `root`, the operating system that
    /// runs the daemon as this process sees it.
    pub fn new(root: DriverRoot, socket: impl Into<PathBuf>) -> Self {
        Self {
            root,
            socket: socket.into(),
        }
    }

    /// Ok if and only if the daemon says exactly `READY` within `limit`.
    ///
    /// Runs one program for up to `limit`, with the root changed unless it is
    /// `/` (that needs `CAP_SYS_CHROOT`): not for an async worker, and not
    /// under a lock.
    pub fn ready(&self, limit: Duration) -> Result<(), HostImexError> {
        self.judge(self.program()?, limit)
    }

    /// The connections that this node's own daemon measured, within `limit`.
    ///
    /// `own` are the names and addresses by which this node may stand in the
    /// daemon's `nodes_config.cfg`. Entries of other nodes are rebuilt from
    /// that file and say nothing about them, so they are not returned.
    ///
    /// Runs a program, as [`ready`](Self::ready) does.
    pub fn connections(&self, own: &[&str], limit: Duration) -> Result<ImexNode, HostImexError> {
        self.own_entry(self.program()?, own, limit)
    }

    /// The program, to be run in its root.
    fn program(&self) -> Result<Command, HostImexError> {
        let found = self.root.tool(TOOL).map_err(HostImexError::ToolMissing)?;
        let tool = self.inside(&found);
        let mut command = Command::new(&tool);
        if self.root.path() != Path::new("/") {
            command::enter(&mut command, self.root.path())
                .map_err(|source| self.not_started(&tool, source))?;
        }
        Ok(command)
    }

    /// Puts the question through `command` and judges the answer.
    fn judge(&self, command: Command, limit: Duration) -> Result<(), HostImexError> {
        let output = self.ask(command, &STATE, limit)?;
        if output.stdout.trim_ascii() == READY {
            return Ok(());
        }
        Err(HostImexError::NotReady {
            socket: self.socket.clone(),
            stdout: one_line(&output.stdout),
            stderr: one_line(&output.stderr),
        })
    }

    fn own_entry(
        &self,
        command: Command,
        own: &[&str],
        limit: Duration,
    ) -> Result<ImexNode, HostImexError> {
        let output = self.ask(command, &DOMAIN, limit)?;
        let socket = || self.socket.clone();
        let nodes =
            imex_peers::parse(&output.stdout).map_err(|source| HostImexError::BadAnswer {
                socket: socket(),
                source,
            })?;
        imex_peers::own(nodes, own).map_err(|unfit| match unfit {
            Unfit::NotListed(listed) => HostImexError::NotListed {
                socket: socket(),
                listed: listed.iter().map(|it| one_line(it.as_bytes())).collect(),
            },
            Unfit::NotMeasured(host) => HostImexError::NotMeasured {
                socket: socket(),
                host: one_line(host.as_bytes()),
            },
        })
    }

    /// The output of a program that succeeded.
    fn ask(
        &self,
        mut command: Command,
        question: &Question,
        limit: Duration,
    ) -> Result<Output, HostImexError> {
        let mut socket = OsString::from("--u=");
        socket.push(&self.socket);
        let tool = PathBuf::from(command.get_program());
        // Nothing of ours (LD_PRELOAD, locale) decides what a host program says.
        command
            .args(question.options)
            .arg(socket)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let run = command::run(command, limit, question.keep);
        let output = run.map_err(|failure| match failure {
            Failure::Start(source) => self.not_started(&tool, source),
            Failure::TimedOut => HostImexError::TimedOut {
                question: question.shown,
                limit,
            },
        })?;
        if output.status.success() {
            return Ok(output);
        }
        Err(HostImexError::Failed {
            question: question.shown,
            socket: self.socket.clone(),
            status: output.status,
            stdout: one_line(&output.stdout),
            stderr: one_line(&output.stderr),
        })
    }

    fn not_started(&self, tool: &Path, source: io::Error) -> HostImexError {
        HostImexError::Start {
            tool: tool.to_owned(),
            root: self.root.path().to_owned(),
            source,
        }
    }

    fn inside(&self, found: &Path) -> PathBuf {
        let relative = found.strip_prefix(self.root.path()).unwrap_or(found);
        Path::new("/").join(relative)
    }
}

// === impl HostImexError ===

impl HostImexError {
    /// A stable word for logs, metrics and findings.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ToolMissing(_) => "imex-ctl-missing",
            Self::Start { .. } => "imex-ctl-not-started",
            Self::TimedOut { .. } => "imex-ctl-timed-out",
            Self::Failed { .. } => "imex-ctl-failed",
            Self::NotReady { .. } => "imex-not-ready",
            Self::BadAnswer { .. } => "imex-ctl-bad-answer",
            Self::NotListed { .. } => "imex-node-not-listed",
            Self::NotMeasured { .. } => "imex-node-not-measured",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::ToolMissing(_) => {
                "install the nvidia-imex package of the driver's branch on the host, or leave the host socket path empty"
            }
            Self::Start { .. } => {
                "the program and its libraries must be whole under the host's root, and entering it needs CAP_SYS_CHROOT"
            }
            Self::TimedOut { .. } => {
                "run `nvidia-imex-ctl -q` on the host; restart the nvidia-imex service if it hangs there too"
            }
            Self::Failed { .. } => {
                "on the host: systemctl status nvidia-imex; its config.cfg needs IMEX_CMD_ENABLED=1 and IMEX_CMD_UNIX_DOMAIN_PATH set to this socket"
            }
            Self::NotReady { .. } => {
                "on the host: nvidia-imex-ctl -N shows which peers are missing; every node of nodes_config.cfg must run nvidia-imex"
            }
            Self::BadAnswer { .. } => {
                "run `nvidia-imex-ctl -N -j` on the host; its version may be newer than this program knows"
            }
            Self::NotListed { .. } => {
                "add this node's address to nodes_config.cfg on every node of the domain and restart nvidia-imex"
            }
            Self::NotMeasured { .. } => {
                "wait until nvidia-imex is READY; if it is, run `nvidia-imex-ctl -N` on the host and name this node as it does"
            }
        }
    }
}

fn said(stdout: &str, stderr: &str) -> String {
    match (stdout, stderr) {
        ("", "") => " and said nothing".to_owned(),
        ("", stderr) => format!(": {stderr}"),
        (stdout, "") => format!(": {stdout}"),
        (stdout, stderr) => format!(": {stdout} ({stderr})"),
    }
}

#[cfg(test)]
#[path = "host_imex_tests.rs"]
mod tests;
