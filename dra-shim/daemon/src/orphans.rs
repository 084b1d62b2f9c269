//! The duty of PID 1, and of whoever else orphans are given to: their zombies are reaped.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Reaps processes that this one has not started. Those that it has started are reaped by who did, at once:
/// a zombie that two looks see, seconds apart, is an orphan.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    seen: BTreeSet<i32>,
}

// === impl Orphans ===

impl Orphans {
    /// From now on, orphans of this process's descendants are its children, even if it is not PID 1.
    // req: DAEMON-7
    pub(crate) fn adopt() -> Self {
        // It fails before Linux 3.4; then only PID 1 gets them.
        let _ = prctl::set_child_subreaper(true);
        Self::default()
    }

    /// Looks for them. `own` is never taken for one.
    pub(crate) fn look(&mut self, own: Option<Pid>) {
        let own = own.map(Pid::as_raw);
        let mut zombies = zombies();
        zombies.retain(|pid| Some(*pid) != own);
        for pid in zombies.intersection(&self.seen) {
            // Nobody has reaped it since the last look.
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        self.seen = zombies;
    }
}

/// The children of this process that have ended. In a pod, there are few processes to look at.
fn zombies() -> BTreeSet<i32> {
    let parent = getpid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_zombie_of(*pid, parent)).collect()
}

/// `PID (NAME) STATE PARENT ...`, where the name may have spaces and parentheses.
fn is_zombie_of(pid: i32, parent: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false; // it is gone
    };
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut words = rest.split_whitespace();
    words.next() == Some("Z") && words.next() == Some(parent.to_string().as_str())
}
