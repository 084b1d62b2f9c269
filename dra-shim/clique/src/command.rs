//! One short-lived program under a deadline, in its own process group.
//!
//! For programs of a host that may hang, print without end, or leave children
//! behind that hold their output open: [`run`] waits for none of these. This
//! crate asks `nvidia-imex-ctl` so, and `cdi-gen` the container runtimes for
//! their versions.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// It could not be started, or this process ignores `SIGCHLD`, and how it
    /// ended cannot be known.
    #[error("the program cannot be started")]
    Start(#[source] io::Error),
    /// It did not end in time, and was killed with its children.
    #[error("the program did not end in time")]
    TimedOut,
}

/// How much is read at once.
const CHUNK: usize = 4096;

/// How soon an exit is noticed when the streams stay open or silent.
const TICK: Duration = Duration::from_millis(10);

/// Makes the child see `root` as `/`. Its program path is then one inside.
#[expect(
    unsafe_code,
    reason = "the standard library can neither chroot a child nor say so safely before exec"
)]
pub(crate) fn enter(command: &mut Command, root: &Path) -> io::Result<()> {
    let root = CString::new(root.as_os_str().as_bytes())?;
    // SAFETY: the closure runs between fork and exec and makes two system
    // calls on a string allocated before; it touches no lock, heap or state
    // that another thread may have held at the fork.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::chroot(root.as_c_str())?;
            nix::unistd::chdir(c"/")?;
            Ok(())
        });
    }
    Ok(())
}

/// Runs `command` to its end or for `limit`. Whichever comes first, nothing of
/// its process group, which is its own, is left running: not for programs that
/// start a daemon. It has no standard input.
///
/// Of each stream the first `keep` bytes are kept; more is read and thrown
/// away, so that nothing the program prints can fill memory.
///
/// # Errors
///
/// Only if the program did not end by itself: that it failed is its status.
pub fn run(mut command: Command, limit: Duration, keep: usize) -> Result<Output, Failure> {
    let began = Instant::now();
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::Start)?;
    let mut stdout = Stream::new(child.stdout.take().map(OwnedFd::from), keep);
    let mut stderr = Stream::new(child.stderr.take().map(OwnedFd::from), keep);
    let exited = loop {
        // Seen before the last drain, so that nothing written before it is lost.
        let exited = has_exited(&child);
        stdout.drain();
        stderr.drain();
        let left = limit.saturating_sub(began.elapsed());
        if exited || left.is_zero() {
            break exited;
        }
        wait_for_more(&[&stdout, &stderr], left);
    };
    let status = end(&mut child).map_err(Failure::Start)?;
    if !exited {
        return Err(Failure::TimedOut);
    }
    Ok(Output {
        status,
        stdout: stdout.kept,
        stderr: stderr.kept,
    })
}

fn pid(child: &Child) -> Pid {
    // Process ids fit: Linux's limit is 2^22.
    Pid::from_raw(child.id().cast_signed())
}

/// Looks without reaping: as long as the zombie is there, its id cannot become
/// another process group's.
fn has_exited(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    match waitid(Id::Pid(pid(child)), flags) {
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => false,
        // An error other than EINTR means that there is no such child any more.
        Ok(_) | Err(_) => true,
    }
}

/// Kills what is left of the group, then reaps the leader.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    // ESRCH and the like: nothing is left of it.
    let _ = killpg(pid(child), Signal::SIGKILL);
    child.wait()
}

fn wait_for_more(streams: &[&Stream], left: Duration) {
    let open = streams.iter().filter_map(|stream| stream.pipe.as_ref());
    let mut open: Vec<_> = open
        .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(left.min(TICK)).unwrap_or(PollTimeout::ZERO);
    // An interrupted or failed poll is only an early look.
    let _ = poll(&mut open, timeout);
}

/// One output of the child, read without ever waiting for it.
struct Stream {
    /// `None` once it has ended.
    pipe: Option<File>,
    keep: usize,
    kept: Vec<u8>,
}

// === impl Stream ===

impl Stream {
    fn new(pipe: Option<OwnedFd>, keep: usize) -> Self {
        // A pipe that cannot be made non-blocking is not read: the program is
        // then judged by its silence, which is safer than waiting on it.
        let pipe = pipe.filter(|fd| fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok());
        Self {
            pipe: pipe.map(File::from),
            keep,
            kept: Vec::new(),
        }
    }

    /// Takes what is there now.
    fn drain(&mut self) {
        let mut chunk = [0; CHUNK];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(read) => {
                    let room = self.keep.saturating_sub(self.kept.len());
                    self.kept.extend(chunk.iter().take(read.min(room)));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: usize = 5000;
    const GIVE_UP: Duration = Duration::from_secs(30);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn both_streams_and_the_status_come_back() {
        let output = run(sh("echo out; echo err >&2; exit 3"), GIVE_UP, KEEP).unwrap();
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn more_output_than_is_kept_neither_blocks_nor_fails() {
        let output = run(sh("head -c 1000000 /dev/zero"), GIVE_UP, KEEP).unwrap();
        assert_eq!(output.stdout.len(), KEEP);
        assert!(output.status.success());
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_open_is_killed_with_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; echo done", pid.display());
        let began = Instant::now();
        let output = run(sh(&script), GIVE_UP, KEEP).unwrap();
        assert_eq!(output.stdout, b"done\n");
        assert!(began.elapsed() < GIVE_UP, "waited for the grandchild");
        assert_gone(&std::fs::read_to_string(pid).unwrap());
    }

    #[test]
    fn past_the_deadline_the_whole_group_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        // A busy machine may need longer to get as far as the grandchild.
        let mut limit = Duration::from_millis(200);
        while !std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
            let failure = run(sh(&script), limit, KEEP).unwrap_err();
            assert!(matches!(failure, Failure::TimedOut), "{failure:?}");
            limit *= 2;
        }
        assert_gone(&std::fs::read_to_string(pid).unwrap());
    }

    /// A killed grandchild may be a zombie for a moment, until its new parent reaps it.
    fn assert_gone(pid: &str) {
        let stat = format!("/proc/{}/stat", pid.trim());
        let give_up = Instant::now() + GIVE_UP;
        loop {
            let Ok(stat) = std::fs::read_to_string(&stat) else {
                return;
            };
            if stat.contains(") Z ") {
                return;
            }
            assert!(Instant::now() < give_up, "still runs: {stat}");
            std::thread::sleep(TICK);
        }
    }

    #[test]
    fn a_limit_beyond_all_time_is_no_limit() {
        let output = run(sh("echo out"), Duration::MAX, KEEP).unwrap();
        assert_eq!(output.stdout, b"out\n");
    }

    #[test]
    fn a_program_that_is_not_there_fails_to_start() {
        let failure = run(Command::new("/nonexistent/tool"), GIVE_UP, KEEP).unwrap_err();
        assert!(
            matches!(&failure, Failure::Start(e) if e.kind() == io::ErrorKind::NotFound),
            "{failure:?}"
        );
    }
}
