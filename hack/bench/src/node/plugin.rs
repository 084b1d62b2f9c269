//! The plugin as a process.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::proc;

pub(super) const KUBELET_ROOT: &str = "/var/lib/kubelet";
const CDI_ROOT: &str = "/var/run/cdi";
/// Its log message when kubelet can find it.
const LISTENS: &str = "sockets open";
/// Its log message when kubelet has registered it.
const REGISTERED: &str = "registered with kubelet";
/// Its log message when the runtime has accepted its guard.
const GUARDS: &str = "the NRI guard is active";
/// kubelet notices a new socket within milliseconds.
const GIVE_UP: Duration = Duration::from_secs(60);

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

/// A running plugin. Dropping it kills the process.
pub(super) struct Plugin {
    child: Child,
    log: PathBuf,
}

/// Times since exec.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    /// Its sockets are open.
    pub(super) listens: Duration,
    /// kubelet, which polls once a second, has registered it.
    pub(super) registered: Duration,
}

/// In KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) anonymous: u64,
    /// The peak so far, including file pages.
    pub(super) peak: u64,
}

// === impl Plugin ===

impl Plugin {
    /// Starts it and waits until kubelet has registered it.
    pub(super) fn start(setup: &Setup) -> anyhow::Result<(Self, Started)> {
        let log = fs::File::create(&setup.log)?;
        let mut command = Command::new(&setup.program);
        command
            .args(["--node-name", &setup.node])
            .args(["--kubelet-root", KUBELET_ROOT, "--cdi-root", CDI_ROOT])
            .arg("--container-driver-root")
            .arg(&setup.driver_root)
            .args(["--feature-gates", "HostManagedIMEX=true"])
            .args([
                "--imex-sharing",
                if setup.is_shared { "many" } else { "one" },
            ])
            .args([
                "--nri-guard-mode",
                if setup.is_guarded { "enforce" } else { "off" },
            ])
            // As in the image.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let started = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", setup.program.display()))?;
        let mut plugin = Self {
            child,
            log: setup.log.clone(),
        };
        let times = Started {
            listens: plugin.until_printed(LISTENS, started)?,
            registered: plugin.until_printed(REGISTERED, started)?,
        };
        if setup.is_guarded {
            plugin.until_printed(GUARDS, started)?;
        }
        Ok((plugin, times))
    }

    /// Waits until it has printed `text`; returns the time since `started`.
    fn until_printed(&mut self, text: &str, started: Instant) -> anyhow::Result<Duration> {
        while !self.printed().contains(text) {
            self.check_alive()?;
            if started.elapsed() > GIVE_UP {
                bail!("the plugin has not printed '{text}':\n{}", self.printed());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(started.elapsed())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The service socket, and the directory of its checkpoint.
    pub(super) fn data() -> PathBuf {
        PathBuf::from(KUBELET_ROOT).join("plugins/compute-domain.nvidia.com")
    }

    pub(super) fn cdi() -> PathBuf {
        CDI_ROOT.into()
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        Ok(Memory {
            anonymous: proc::anonymous_kib(self.pid())?,
            peak: proc::peak_kib(self.pid())?,
        })
    }

    /// Ends it with SIGTERM.
    pub(super) fn terminate(mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.pid().try_into()?), Signal::SIGTERM)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > GIVE_UP {
                bail!(
                    "the plugin has not ended after SIGTERM:\n{}",
                    self.printed()
                );
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn check_alive(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        bail!("the plugin ended: {status}\n{}", self.printed())
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
