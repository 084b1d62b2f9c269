use std::fs;
use std::io;

use dra_common::Advice;

/// Linux's boot id; the same in every container of a host.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Identifies one boot of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootId(String);

/// Whether a checkpoint was written in the running boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Boot {
    /// The records are of this boot, or there are none.
    Same,
    /// The records are from an earlier boot. The effects that survive a reboot
    /// still have to be undone.
    Changed {
        /// The boot id in the file.
        recorded: String,
    },
    /// There are records without a boot id, written by NVIDIA's driver before
    /// 0.4.0 or recovered from a damaged file. They may be from any boot.
    Missing,
}

/// Why the boot id is unknown.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "mount procfs at /proc in this container")]
pub enum BootIdError {
    /// The host's boot id cannot be read.
    #[error("cannot read {BOOT_ID_PATH}")]
    #[advice(code = "boot-id-unreadable")]
    Unreadable(#[source] io::Error),
    /// The text is empty or more than one line.
    #[error("invalid boot id {text:?}: it must be one non-empty line")]
    #[advice(code = "boot-id-invalid")]
    Invalid {
        /// The text.
        text: String,
    },
}

// === impl BootId ===

impl BootId {
    /// A boot id from its text, surrounding white space dropped.
    pub fn new(text: &str) -> Result<Self, BootIdError> {
        let id = text.trim();
        if id.is_empty() || id.contains('\n') {
            return Err(BootIdError::Invalid {
                text: text.to_owned(),
            });
        }
        Ok(Self(id.to_owned()))
    }

    /// Reads the running boot's id from `/proc`.
    pub fn current() -> Result<Self, BootIdError> {
        Self::new(&fs::read_to_string(BOOT_ID_PATH).map_err(BootIdError::Unreadable)?)
    }

    /// Returns the id, as written in a checkpoint.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares with the boot id in a file.
    // req: CKPT-15
    pub(crate) fn compare(&self, recorded: Option<&str>) -> Boot {
        match recorded {
            None => Boot::Missing,
            Some(recorded) if recorded == self.0 => Boot::Same,
            Some(recorded) => Boot::Changed {
                recorded: recorded.to_owned(),
            },
        }
    }
}
