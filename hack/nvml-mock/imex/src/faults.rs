//! What can go wrong on purpose: the file `imex-faults` in the driver root, read again whenever it
//! matters, so that a test breaks and repairs a running daemon.
//!
//! | key | of | what happens |
//! |---|---|---|
//! | `START_DELAY_MS=N` | daemon | `INITIALIZING` for so long |
//! | `STUCK=STATE` | daemon | this state for good |
//! | `CRASH_AFTER_MS=N` | daemon | it ends with code 1 after so long |
//! | `IN_USE=1` | daemon | at its start, another one has the session: `NV_ERR_IN_USE`, code 1 |
//! | `WRONG_ID=1` | daemon | it takes the next line of the node list for its own |
//! | `HANG=1` | daemon | the command endpoint accepts and never answers |
//! | `CTL_HANG=1` | `nvidia-imex-ctl` | it never ends |

use std::path::Path;
use std::time::Duration;

use crate::config::Config;

/// The faults at one moment.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a line of the file, and any of them may be on"
)]
#[derive(Debug, Default)]
pub struct Faults {
    /// How long the daemon is `INITIALIZING`.
    pub start_delay: Duration,
    /// The state in which it stays.
    pub stuck: Option<String>,
    /// When it ends by itself.
    pub crash_after: Option<Duration>,
    /// Another daemon has the driver's session.
    pub in_use: bool,
    /// It takes another line for its own.
    pub wrong_id: bool,
    /// It does not answer commands.
    pub hangs: bool,
    /// `nvidia-imex-ctl` does not end.
    pub ctl_hangs: bool,
}

impl Faults {
    /// Those of a driver root; none if it has no such file.
    ///
    /// # Errors
    /// One line that says what is wrong in the file.
    pub fn read(root: &Path) -> Result<Self, String> {
        let config = Config::read(&root.join("imex-faults")).unwrap_or_default();
        let ms = |key| config.number(key, 0).map(Duration::from_millis);
        Ok(Self {
            start_delay: ms("START_DELAY_MS")?,
            stuck: config.get("STUCK").map(str::to_owned),
            crash_after: config
                .get("CRASH_AFTER_MS")
                .map(|_| ms("CRASH_AFTER_MS"))
                .transpose()?,
            in_use: config.is_on("IN_USE"),
            wrong_id: config.is_on("WRONG_ID"),
            hangs: config.is_on("HANG"),
            ctl_hangs: config.is_on("CTL_HANG"),
        })
    }
}
