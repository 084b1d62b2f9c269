//! The process, and its files.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::dra_caller;
use crate::proc;

pub(crate) const KUBELET_ROOT: &str = "/var/lib/kubelet";
const CDI_ROOT: &str = "/var/run/cdi";
/// kubelet notices a new socket within milliseconds.
const GIVE_UP: Duration = Duration::from_secs(60);

/// A driver by its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driver(pub(crate) &'static str);

/// A running plugin. Dropping it kills the process.
pub(crate) struct Plugin {
    pub(crate) driver: Driver,
    child: Child,
    log: PathBuf,
    started: Instant,
}

/// In KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) anonymous: u64,
    /// The peak so far, including file pages.
    pub(crate) peak: u64,
}

// === impl Driver ===

impl Driver {
    /// The directory of the plugin's service socket and checkpoint.
    pub(crate) fn data(self) -> PathBuf {
        Path::new(KUBELET_ROOT).join("plugins").join(self.0)
    }

    /// The service socket, if the plugin has made it.
    pub(crate) fn socket(self) -> Option<PathBuf> {
        dra_caller::service_socket(&self.data())
    }

    /// The CDI spec of a prepared claim.
    pub(super) fn spec(self, uid: &str) -> PathBuf {
        Path::new(CDI_ROOT).join(format!("k8s.{}-claim_{uid}.yaml", self.0))
    }
}

// === impl Plugin ===

impl Plugin {
    /// Starts `command`, the program with its driver's options, on this node. Its output is in `log`.
    pub(crate) fn start(
        driver: Driver,
        mut command: Command,
        node: &str,
        log: &Path,
    ) -> anyhow::Result<Self> {
        command
            .args(["--node-name", node, "--cdi-root", CDI_ROOT])
            // As in the image.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(log)?);
        let started = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self {
            driver,
            child,
            log: log.to_owned(),
            started,
        })
    }

    /// Waits until it has printed `text`; returns the time since exec.
    pub(crate) fn until_printed(&mut self, text: &str) -> anyhow::Result<Duration> {
        let wait = format!("printed '{text}'");
        self.until(&wait, |plugin| plugin.printed().contains(text))
    }

    /// Waits until its service socket accepts connections.
    pub(crate) fn until_listens(&mut self) -> anyhow::Result<()> {
        self.until("opened its service socket", |plugin| {
            let socket = plugin.driver.socket();
            socket.is_some_and(|path| UnixStream::connect(path).is_ok())
        })?;
        Ok(())
    }

    fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) -> anyhow::Result<Duration> {
        while !is_done(self) {
            self.check_alive()?;
            if self.age() > GIVE_UP {
                bail!("the plugin has not {what}:\n{}", self.printed());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(self.age())
    }

    /// The time since exec.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        Ok(Memory {
            anonymous: proc::anonymous_kib(self.pid())?,
            peak: proc::peak_kib(self.pid())?,
        })
    }

    /// Ends it with SIGTERM.
    pub(crate) fn terminate(mut self) -> anyhow::Result<()> {
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

    /// Its output.
    pub(crate) fn printed(&self) -> String {
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
