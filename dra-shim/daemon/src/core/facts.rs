//! Inputs of the core, and its reports.

use std::time::Duration;

/// NVML's reading of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fabric {
    /// Unknown, for this reason.
    Unknown(String),
    /// The node is in no clique, for this reason.
    NoClique(String),
    /// The node is in this clique.
    Clique(String),
}

/// [`Exit::class`] if `nvidia-imex` was not started because the node's driver is too old.
pub(crate) const DRIVER_TOO_OLD: &str = "driver-too-old";

/// How `nvidia-imex` ended, or why it was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    /// `exit code 1`, `killed by SIGSEGV`, or why it was not started.
    pub(crate) how: String,
    /// A label of metrics: `code`, `signal`, `in-use`, `not-started` or [`DRIVER_TOO_OLD`].
    pub(crate) class: &'static str,
    /// Another `nvidia-imex` holds the driver's session.
    pub(crate) in_use: bool,
    /// Its last line of output.
    pub(crate) last_line: String,
}

/// Answer of `nvidia-imex-ctl -q`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `READY`.
    Ready,
    /// Another state, or no connection.
    NotReady(String),
    /// No answer for this long.
    Unresponsive(Duration),
}

/// Why `nvidia-imex` is started. Also a label of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StartReason {
    /// First start by this daemon.
    First,
    /// It had exited by itself.
    Exited,
    /// The node is in another clique, or in a clique again.
    Clique,
    /// The node has another index.
    Index,
    /// The node list has another length or other names.
    List,
}

/// A report for administrators, in addition to the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// It has exited by itself, or was not started.
    Ended(Exit),
    /// It has stopped answering.
    Unresponsive(Duration),
    /// It is restarted because its place has changed.
    Restarted(StartReason),
}

// === impl Exit ===

impl Exit {
    /// The exit as a sentence.
    // req: DAEMON-5, DAEMON-6
    pub(crate) fn sentence(&self) -> String {
        if self.in_use {
            return "another nvidia-imex holds the IMEX session of this node's driver (NV_ERR_IN_USE); this nvidia-imex starts when the other one exits. The other one is the host's own service or a daemon of NVIDIA's DRA driver; in the second case, the node label resource.nvidia.com/computeDomain has the ComputeDomain's UID".to_owned();
        }
        let reported = match self.last_line.as_str() {
            "" => String::new(),
            line => format!("; last line of its output: {line}"),
        };
        if matches!(self.class, "not-started" | DRIVER_TOO_OLD) {
            return format!("nvidia-imex cannot be started: {}", self.how);
        }
        format!("nvidia-imex has exited ({}){reported}", self.how)
    }
}

// === impl StartReason ===

impl StartReason {
    pub(crate) const ALL: [Self; 5] = [
        Self::First,
        Self::Exited,
        Self::Clique,
        Self::Index,
        Self::List,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Exited => "exited",
            Self::Clique => "clique",
            Self::Index => "index",
            Self::List => "list",
        }
    }
}
