//! Faults in a process's system calls, with strace attached to it or started around it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::GIVE_UP;

/// System calls on certain files, and their fault.
#[derive(Debug, Clone)]
pub(crate) struct Injection {
    /// Names of system calls, separated by commas.
    pub(crate) calls: &'static str,
    /// Only calls with one of these as an argument or behind a descriptor.
    pub(crate) paths: Vec<PathBuf>,
    /// The fault in strace's syntax: `error=EIO:when=1+`. Calls are counted per thread.
    pub(crate) how: String,
}

/// A running strace of a plugin.
pub(crate) struct Strace {
    /// `None` if strace has started the plugin.
    tracer: Option<Child>,
    plugin: u32,
    /// strace's log of calls.
    calls: PathBuf,
}

impl Injection {
    fn command(&self, calls: &Path) -> Command {
        let mut command = Command::new("strace");
        // Otherwise SIGTERM is blocked in a strace that has started its program.
        command
            .args(["-f", "--interruptible=waiting", "-o"])
            .arg(calls);
        for path in &self.paths {
            command.arg("-P").arg(path);
        }
        command
            .arg(format!("--trace={}", self.calls))
            .arg(format!("--inject={}:{}", self.calls, self.how));
        command
    }

    /// The command line in front of the plugin's, so that the fault is active from the first call
    /// on. The plugin keeps the process ID.
    pub(crate) fn wrapper(&self, calls: &Path) -> Vec<String> {
        let command = self.command(calls);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.map(|word| word.to_str().unwrap().to_owned());
        words
            .chain(["--daemonize=grandchild".to_owned(), "--".to_owned()])
            .collect()
    }
}

impl Strace {
    /// Attaches strace. Returns when all threads of the plugin are traced.
    pub(crate) async fn attach(plugin: u32, injection: &Injection, calls: &Path) -> Self {
        let errors = calls.with_extension("errors");
        let mut command = injection.command(calls);
        command
            .arg(format!("--attach={plugin}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap());
        let mut tracer = command.spawn().unwrap_or_else(|error| {
            panic!("cannot run strace: {error}; apt-get install strace");
        });
        let began = Instant::now();
        loop {
            let printed = fs::read_to_string(&errors).unwrap();
            if printed.contains("attached") {
                break;
            }
            let ended = tracer.try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < GIVE_UP,
                "strace cannot trace another process here; as root, or with CAP_SYS_PTRACE \
                 and a seccomp profile that allows ptrace, it can: {printed}"
            );
            sleep(Duration::from_millis(5)).await;
        }
        Self {
            tracer: Some(tracer),
            plugin,
            calls: calls.to_owned(),
        }
    }

    /// The strace of a plugin that was started with [`Injection::wrapper`].
    pub(crate) fn around(plugin: u32, calls: &Path) -> Self {
        Self {
            tracer: None,
            plugin,
            calls: calls.to_owned(),
        }
    }

    /// How many calls were failed, delayed or killed.
    pub(crate) fn hits(&self) -> usize {
        let calls = fs::read_to_string(&self.calls).unwrap_or_default();
        let is_hit = |line: &&str| {
            ["(INJECTED)", "(DELAYED)", "killed by SIGKILL"]
                .iter()
                .any(|mark| line.contains(mark))
        };
        calls.lines().filter(is_hit).count()
    }

    pub(crate) fn seen(&self) -> String {
        fs::read_to_string(&self.calls).unwrap_or_default()
    }

    /// Ends the fault. A living plugin continues.
    pub(crate) async fn detach(mut self) {
        let tracer = self.tracer.as_ref().map(Child::id);
        let tracer = tracer.or_else(|| tracer_of(self.plugin));
        if let Some(tracer) = tracer {
            // SIGTERM: strace detaches first. It may have ended with the plugin.
            let _ = Command::new("kill").arg(tracer.to_string()).status();
        }
        if let Some(mut tracer) = self.tracer.take() {
            tracer.wait().unwrap();
        }
        let began = Instant::now();
        while tracer_of(self.plugin).is_some() {
            assert!(began.elapsed() < GIVE_UP, "strace does not detach");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn tracer_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().filter(|&pid| pid != 0)
}
