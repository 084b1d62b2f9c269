//! Injected faults: the file `imex-faults` in the driver root. It is read again at each use, so that a
//! test can break and repair a running daemon.
//!
//! | key | program | effect |
//! |---|---|---|
//! | `START_DELAY_MS=N` | daemon | is `INITIALIZING` for N ms |
//! | `STUCK=STATE` | daemon | stays in this state |
//! | `CRASH_AFTER_MS=N` | daemon | exits with code 1 after N ms |
//! | `IN_USE=1` | daemon | fails to start because another one has the session: `NV_ERR_IN_USE`, code 1 |
//! | `WRONG_ID=1` | daemon | takes the next line of the node list as its own |
//! | `HANG=1` | daemon | the command endpoint accepts connections and never answers |
//! | `CTL_HANG=1` | `nvidia-imex-ctl` | never exits |

use std::path::Path;
use std::time::Duration;

use crate::config::Config;

/// The faults that are set.
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
    /// When the daemon exits by itself.
    pub crash_after: Option<Duration>,
    /// Another daemon has the driver's session.
    pub in_use: bool,
    /// The daemon takes another line as its own.
    pub wrong_id: bool,
    /// The daemon does not answer commands.
    pub hangs: bool,
    /// `nvidia-imex-ctl` does not end.
    pub ctl_hangs: bool,
}

impl Faults {
    /// Reads the faults of a driver root; none if it has no such file.
    ///
    /// # Errors
    /// One line with the error in the file.
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
