//! What the world tells the core, and what people are told.

use std::time::Duration;

/// What NVML says of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fabric {
    /// Nothing, for this reason.
    Unknown(String),
    /// It is in no clique, for this reason.
    NoClique(String),
    /// It is in this one.
    Clique(String),
}

/// [`Exit::class`] of an `nvidia-imex` that was not started, because the node's driver is too old for it.
pub(crate) const DRIVER_TOO_OLD: &str = "driver-too-old";

/// How `nvidia-imex` ended, or why it was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    /// `exit code 1`, `killed by SIGSEGV`, or why it was not started.
    pub(crate) how: String,
    /// A label of metrics: `code`, `signal`, `in-use`, `not-started` or [`DRIVER_TOO_OLD`].
    pub(crate) class: &'static str,
    /// Another `nvidia-imex` has the driver's session.
    pub(crate) in_use: bool,
    /// The last line that it wrote.
    pub(crate) last_line: String,
}

/// What `nvidia-imex-ctl -q` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `READY`.
    Ready,
    /// Another state, or no connection.
    NotReady(String),
    /// Nothing for so long.
    Unresponsive(Duration),
}

/// Why `nvidia-imex` is started. Also a label of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StartReason {
    /// This process has just begun.
    First,
    /// It had ended by itself.
    Exited,
    /// The node is in another clique, or in one again.
    Clique,
    /// The node has another index.
    Index,
    /// The node list has another length or other names.
    List,
}

/// Something that people should know, beside the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// It has ended by itself, or was not started.
    Ended(Exit),
    /// It does not answer any more.
    Unresponsive(Duration),
    /// It is started anew, because its place has changed.
    Moved(StartReason),
}

// === impl Exit ===

impl Exit {
    /// For people.
    // req: DAEMON-5, DAEMON-6
    pub(crate) fn sentence(&self) -> String {
        if self.in_use {
            return "another nvidia-imex has the IMEX session of this node's driver (NV_ERR_IN_USE): the host's own service, or a daemon of NVIDIA's DRA driver, for the ComputeDomain whose UID the node has as its label resource.nvidia.com/computeDomain; this one starts when that has ended".to_owned();
        }
        let reported = match self.last_line.as_str() {
            "" => String::new(),
            line => format!("; its last line: {line}"),
        };
        if matches!(self.class, "not-started" | DRIVER_TOO_OLD) {
            return format!("nvidia-imex cannot be started: {}", self.how);
        }
        format!("nvidia-imex has ended ({}){reported}", self.how)
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
