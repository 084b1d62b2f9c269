//! The duty of PID 1, and of whoever else orphans are given to: their zombies are reaped.

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;

/// Reaps processes that this one has not started. Those that it has started are reaped by who did, at once:
/// a zombie that two looks see, seconds apart, is an orphan.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    seen: Option<Pid>,
}

// === impl Orphans ===

impl Orphans {
    /// From now on, orphans of this process's descendants are its children, even if it is not PID 1.
    // req: DM-7
    pub(crate) fn adopt() -> Self {
        // A kernel before 3.4; then only PID 1 gets them.
        let _ = prctl::set_child_subreaper(true);
        Self::default()
    }

    /// Looks for one. `own` is never taken for an orphan.
    pub(crate) fn look(&mut self, own: Option<Pid>) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        while let Some(pid) = zombie(flags).filter(|pid| Some(*pid) != own) {
            if self.seen.replace(pid) != Some(pid) {
                return;
            }
            // Nobody has reaped it since the last look.
            let _ = waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
        }
        self.seen = None;
    }
}

fn zombie(flags: WaitPidFlag) -> Option<Pid> {
    match waitid(Id::All, flags) {
        Ok(status) => status.pid(),
        // No children at all, or a signal: the next look finds it.
        Err(Errno::ECHILD | _) => None,
    }
}
