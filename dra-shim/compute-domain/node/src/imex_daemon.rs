//! The IMEX daemon of this node in driver-managed mode, according to its state file. The caller
//! checks whether `nvidia-imex` answers.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use compute_domain_api::driver_managed::{DaemonPhase, DaemonState, STATE_FILE};
use dra_checkpoint::BootId;
use dra_common::{Advice, ReadError, read_bounded};

/// Maximum size of the state file, larger than any valid state.
const MAX_STATE: u64 = 64 * 1024;

/// Reader of the state file of this node's IMEX daemon.
#[derive(Debug, Clone)]
pub struct ImexDaemon {
    state_file: PathBuf,
    boot: BootId,
}

const LOG_HINT: &str = "if this persists, see the conditions of the ComputeDomain and the log of the imex-daemon pod of this node";

/// Why the daemon's state does not allow claims to be prepared. All causes may resolve by themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(
    hint = "see why the imex-daemon pod of this node does not run (kubectl describe pod); the node needs the labels that imexDaemon.affinity selects"
)]
pub enum ImexDaemonError {
    /// There is no state file.
    #[error("no IMEX daemon has started on this node: {} is missing", file.display())]
    #[advice(code = "imex-daemon-missing")]
    Missing {
        /// The path of the state file.
        file: PathBuf,
    },
    /// The state file cannot be read.
    #[error("the state of this node's IMEX daemon cannot be read from {}: {reason}", file.display())]
    #[advice(
        code = "imex-daemon-unreadable",
        hint = "see the log of the imex-daemon pod of this node"
    )]
    Unreadable {
        /// The path of the state file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The state file is from before the last reboot.
    #[error(
        "the IMEX daemon has not started on this node since the last reboot: {} is from an earlier boot",
        file.display()
    )]
    #[advice(code = "imex-daemon-of-former-boot")]
    FormerBoot {
        /// The path of the state file.
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
    #[error("the IMEX daemon of this node cannot run: {reason}")]
    #[advice(code = "imex-daemon-driver-too-old", hint = "")]
    DriverTooOld {
        /// The daemon's reason, with what to do.
        reason: String,
    },
    /// The daemon is about to be replaced.
    #[error(
        "the IMEX daemon of this node is about to be replaced; the claim waits for the new daemon"
    )]
    #[advice(code = "imex-daemon-draining", hint = "")]
    Draining,
    /// The daemon is in another clique than the node's GPUs: one of the two is about to change.
    #[error(
        "the IMEX daemon of this node is a member of NVLink clique {daemon}, but the node's GPUs are in clique {node}"
    )]
    #[advice(code = "imex-daemon-of-other-clique", hint = LOG_HINT)]
    OtherClique {
        /// The clique of the daemon, or `none`.
        daemon: String,
        /// The clique of the node, or `none`.
        node: String,
    },
}

/// A claim's requirements on the node's daemon.
#[derive(Debug, Clone)]
pub(crate) struct NeededDaemon {
    pub(crate) daemon: Arc<ImexDaemon>,
    /// The clique of the node's GPUs; `None`: they are in no clique, and the claim gets no device.
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

    /// Reads the daemon's state of the current boot from one small file.
    ///
    /// # Errors
    /// [`ImexDaemonError`]: the state is missing, unreadable or of an earlier boot.
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

    /// Checks that claims on a node of this clique may be prepared. Reads one small file.
    ///
    /// # Errors
    /// [`ImexDaemonError`]: retry.
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
            DaemonPhase::Draining => Err(ImexDaemonError::Draining),
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

    /// Checks that claims on a node without a clique may be prepared without a device. The daemon reads
    /// the clique at other times than the caller: while the daemon reports one, one of the two is stale.
    /// A missing or unreadable state is no reason to wait. Reads one small file.
    ///
    /// # Errors
    /// [`ImexDaemonError::OtherClique`]: retry.
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
