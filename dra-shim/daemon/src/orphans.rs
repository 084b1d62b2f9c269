//! Reaps orphaned processes: the duty of PID 1 and of child subreapers.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Reaps zombies that this process has not started. Its own children are reaped at once by the code that started
/// them, so a zombie in two scans, seconds apart, is an orphan.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    seen: BTreeSet<i32>,
}

// === impl Orphans ===

impl Orphans {
    /// Makes this process the parent of its descendants' orphans, even if it is not PID 1.
    // req: DAEMON-7
    pub(crate) fn adopt() -> Self {
        // It fails before Linux 3.4; then only PID 1 gets them.
        let _ = prctl::set_child_subreaper(true);
        Self::default()
    }

    /// Scans for orphans and reaps them. `own` is never treated as one.
    pub(crate) fn look(&mut self, own: Option<Pid>) {
        let own = own.map(Pid::as_raw);
        let mut zombies = zombies();
        zombies.retain(|pid| Some(*pid) != own);
        for pid in zombies.intersection(&self.seen) {
            // Still not reaped since the last scan.
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        self.seen = zombies;
    }
}

/// The zombie children of this process. A pod has few processes to scan.
fn zombies() -> BTreeSet<i32> {
    let parent = getpid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_zombie_of(*pid, parent)).collect()
}

/// `PID (NAME) STATE PARENT ...`, where the name may have spaces and parentheses.
fn is_zombie_of(pid: i32, parent: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false; // the process no longer exists
    };
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut words = rest.split_whitespace();
    words.next() == Some("Z") && words.next() == Some(parent.to_string().as_str())
}
