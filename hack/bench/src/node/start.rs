//! Starts the ComputeDomain plugin.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::objects::DRIVER;
use crate::plugin::{Driver, KUBELET_ROOT, Plugin};

/// Its log message when kubelet can find it.
const LISTENS: &str = "sockets open";
/// Its log message when kubelet has registered it.
const REGISTERED: &str = "registered with kubelet";
/// Its log message when the runtime has accepted its guard.
const GUARDS: &str = "the NRI guard is active";

/// How to start the plugin.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) program: PathBuf,
    pub(super) node: String,
    pub(super) driver_root: PathBuf,
    /// Whether claims share the node's device.
    pub(super) is_shared: bool,
    /// Whether it refuses containers that request a channel without a claim.
    pub(super) is_guarded: bool,
    /// Its output.
    pub(super) log: PathBuf,
}

/// Times since exec.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    /// Its sockets are open.
    pub(super) listens: Duration,
    /// kubelet, which polls once a second, has registered it.
    pub(super) registered: Duration,
}

// === impl Setup ===

impl Setup {
    /// Starts the plugin and waits until kubelet has registered it.
    pub(super) fn start(&self) -> anyhow::Result<(Plugin, Started)> {
        let on = |is: bool, on: &'static str, off: &'static str| if is { on } else { off };
        let mut command = Command::new(&self.program);
        command
            .args(["--kubelet-root", KUBELET_ROOT])
            .arg("--container-driver-root")
            .arg(&self.driver_root)
            .args(["--feature-gates", "HostManagedIMEX=true"])
            .args(["--imex-sharing", on(self.is_shared, "many", "one")])
            .args(["--nri-guard-mode", on(self.is_guarded, "enforce", "off")]);
        let mut plugin = Plugin::start(Driver(DRIVER), command, &self.node, &self.log)?;
        let times = Started {
            listens: plugin.until_printed(LISTENS)?,
            registered: plugin.until_printed(REGISTERED)?,
        };
        if self.is_guarded {
            plugin.until_printed(GUARDS)?;
        }
        Ok((plugin, times))
    }
}
