//! The subject or the floor as a process, with its CPU time and memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::accounts::Account;
use crate::proc;

/// The interval of memory samples.
const SAMPLE: Duration = Duration::from_millis(50);
/// The limit for the time from SIGTERM until the program ends.
const GIVE_UP: Duration = Duration::from_secs(30);

/// The two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Subject,
    Floor,
}

/// A running program. Dropping it kills the process.
pub(super) struct Program {
    pub(super) which: Which,
    child: Child,
    pub(super) user: String,
    /// Its output.
    log: PathBuf,
    pub(super) started: Instant,
    /// Whether it has begun to watch the domains.
    pub(super) watching: bool,
    /// The largest `RssAnon` since the last query, in KiB.
    peak: Arc<AtomicU64>,
    sampler: JoinHandle<()>,
}

impl Program {
    /// Starts it as this user of the API server, with its output in a file in `dir`.
    pub(super) fn start(
        which: Which,
        mut command: Command,
        account: &Account,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let log = dir.join("log");
        command
            .env("KUBECONFIG", &account.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let started = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let peak = Arc::new(AtomicU64::new(0));
        let sampler = tokio::spawn(sample(child.id(), Arc::clone(&peak)));
        Ok(Self {
            which,
            child,
            user: account.user.clone(),
            log,
            started,
            watching: false,
            peak,
            sampler,
        })
    }

    /// Its anonymous memory, in KiB.
    pub(super) fn anonymous_kib(&self) -> anyhow::Result<u64> {
        proc::anonymous_kib(self.child.id())
    }

    /// The largest sample of [`Program::anonymous_kib`] since the last call.
    pub(super) fn peak_kib(&self) -> anyhow::Result<u64> {
        Ok(self
            .peak
            .swap(0, Ordering::Relaxed)
            .max(self.anonymous_kib()?))
    }

    /// Its CPU time so far.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        proc::cpu(self.child.id())
    }

    /// Fails if it has ended; the error has its last output.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        bail!("the program ended: {status}\n{}", self.last_lines())
    }

    /// Its last output.
    pub(super) fn last_lines(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(10)..);
        last.unwrap_or_default().join("\n")
    }

    /// Ends it with SIGTERM, and returns how long it took.
    pub(super) async fn terminate(mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        kill(Pid::from_raw(self.child.id().try_into()?), Signal::SIGTERM)?;
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > GIVE_UP {
                bail!(
                    "the program has not ended after SIGTERM: {}",
                    self.last_lines()
                );
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(began.elapsed())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.sampler.abort();
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn sample(pid: u32, peak: Arc<AtomicU64>) {
    while let Ok(kib) = proc::anonymous_kib(pid) {
        peak.fetch_max(kib, Ordering::Relaxed);
        sleep(SAMPLE).await;
    }
}
