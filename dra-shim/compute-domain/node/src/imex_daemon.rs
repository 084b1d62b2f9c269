//! The IMEX daemon that the driver runs on this node (driver-managed mode), by what it says of
//! itself in a file. Whether `nvidia-imex` answers at the same time is for the caller to ask.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use compute_domain_api::driver_managed::{DaemonPhase, DaemonState, STATE_FILE};
use dra_checkpoint::BootId;
use dra_common::{Advice, ReadError, read_bounded};

/// More than any state has.
const MAX_STATE: u64 = 64 * 1024;

/// Where the daemon of this node says what it is.
#[derive(Debug, Clone)]
pub struct ImexDaemon {
    state_file: PathBuf,
    boot: BootId,
}

const LOG_HINT: &str = "if that lasts, see the conditions of the ComputeDomain and the log of the imex-daemon pod of this node";

/// Why no claim is prepared by what the daemon says. All may change by themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(
    hint = "see why the imex-daemon pod of this node does not run (kubectl describe pod); it needs the labels by which imexDaemon.affinity finds nodes"
)]
pub enum ImexDaemonError {
    /// It has said nothing.
    #[error("no IMEX daemon of the driver has started on this node: {} is missing", file.display())]
    #[advice(code = "imex-daemon-missing")]
    Missing {
        /// Where it would.
        file: PathBuf,
    },
    /// What it says cannot be read.
    #[error("the state of this node's IMEX daemon cannot be read from {}: {reason}", file.display())]
    #[advice(
        code = "imex-daemon-unreadable",
        hint = "see the log of the imex-daemon pod of this node"
    )]
    Unreadable {
        /// Where it is.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// It has said nothing since the node was started.
    #[error(
        "the IMEX daemon of the driver has not started on this node since the node did: {} is of an earlier boot",
        file.display()
    )]
    #[advice(code = "imex-daemon-of-former-boot")]
    FormerBoot {
        /// Where it would.
        file: PathBuf,
    },
    /// `nvidia-imex` is not ready.
    #[error("the IMEX daemon of this node is not ready: {reason}")]
    #[advice(code = "imex-daemon-starting", hint = LOG_HINT)]
    Starting {
        /// The daemon's reason.
        reason: String,
    },
    /// The node's NVIDIA driver is too old for `nvidia-imex` to be started.
    #[error("the IMEX daemon of this node cannot work: {reason}")]
    #[advice(code = "imex-daemon-driver-too-old", hint = "")]
    DriverTooOld {
        /// The daemon's reason, with what to do.
        reason: String,
    },
    /// The daemon is about to be replaced.
    #[error("the IMEX daemon of this node is about to be replaced: {reason}")]
    #[advice(code = "imex-daemon-draining", hint = "")]
    Draining {
        /// The daemon's reason.
        reason: String,
    },
    /// It is in another clique than the node's GPUs: one of the two is about to change.
    #[error(
        "the IMEX daemon of this node is a member of NVLink clique {daemon}, and the GPUs are in {node}"
    )]
    #[advice(code = "imex-daemon-of-other-clique", hint = LOG_HINT)]
    OtherClique {
        /// The clique of the daemon, or that it has none.
        daemon: String,
        /// The clique of the node.
        node: String,
    },
}

/// What a claim needs of the node's daemon.
#[derive(Debug, Clone)]
pub(crate) struct NeededDaemon {
    pub(crate) daemon: Arc<ImexDaemon>,
    /// The clique of the node's GPUs; `None`: they are in none, and the claim goes without a device.
    pub(crate) clique: Option<String>,
}

// === impl ImexDaemon ===

impl ImexDaemon {
    /// The daemon that keeps its files in `dir`. `boot` is the current boot's id.
    pub fn new(dir: &Path, boot: BootId) -> Self {
        Self {
            state_file: dir.join(STATE_FILE),
            boot,
        }
    }

    /// What it has said since the node was started. Reads one small file.
    ///
    /// # Errors
    /// [`ImexDaemonError`]: it has said nothing, or nothing that can be read.
    // req: MODE-18
    pub fn state(&self) -> Result<DaemonState, ImexDaemonError> {
        let file = || self.state_file.clone();
        let text = read_bounded(&self.state_file, MAX_STATE).map_err(|error| match error {
            ReadError::Io(error) if error.kind() == ErrorKind::NotFound => {
                ImexDaemonError::Missing { file: file() }
            }
            error => self.unreadable(&error),
        })?;
        let state: DaemonState =
            serde_json::from_slice(&text).map_err(|error| self.unreadable(&error))?;
        if state.boot_id != self.boot.as_str() {
            return Err(ImexDaemonError::FormerBoot { file: file() });
        }
        Ok(state)
    }

    /// Whether claims on a node of this clique may be prepared. Reads one small file.
    ///
    /// # Errors
    /// [`ImexDaemonError`]: not now.
    // req: MODE-17
    pub fn require_ready(&self, clique: &str) -> Result<(), ImexDaemonError> {
        let DaemonState {
            phase,
            reason,
            clique: daemon,
            ..
        } = self.state()?;
        match phase {
            DaemonPhase::Starting => Err(ImexDaemonError::Starting { reason }),
            DaemonPhase::DriverTooOld => Err(ImexDaemonError::DriverTooOld { reason }),
            DaemonPhase::Draining => Err(ImexDaemonError::Draining { reason }),
            DaemonPhase::Ready if daemon == clique => Ok(()),
            DaemonPhase::Ready => Err(ImexDaemonError::OtherClique {
                daemon: if daemon.is_empty() {
                    "none".to_owned()
                } else {
                    daemon
                },
                node: clique.to_owned(),
            }),
        }
    }

    /// Whether claims on a node without a clique may be prepared, without a device. The daemon reads the
    /// clique at other times: while it knows one, the caller's reading is of before, or it is the daemon's
    /// that is. A daemon that says nothing is none to wait for. Reads one small file.
    ///
    /// # Errors
    /// [`ImexDaemonError::OtherClique`]: not now.
    // req: MODE-20
    pub fn require_no_clique(&self) -> Result<(), ImexDaemonError> {
        match self.state() {
            Ok(state) if !state.clique.is_empty() => Err(ImexDaemonError::OtherClique {
                daemon: state.clique,
                node: "none".to_owned(),
            }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> ImexDaemonError {
        ImexDaemonError::Unreadable {
            file: self.state_file.clone(),
            reason: error.to_string(),
        }
    }
}

// === impl NeededDaemon ===

impl NeededDaemon {
    pub(crate) fn require_ready(&self) -> Result<(), ImexDaemonError> {
        match &self.clique {
            Some(clique) => self.daemon.require_ready(clique),
            None => self.daemon.require_no_clique(),
        }
    }
}

#[cfg(test)]
#[path = "imex_daemon_tests.rs"]
mod tests;
