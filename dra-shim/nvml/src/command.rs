//! Runs one short-lived program with a timeout, in its own process group.
//!
//! For programs of a host that may hang, print endlessly, or leave children that hold their
//! output open: [`run`] returns in time in all these cases.
//!
//! Programs that examine a GPU host run the driver's programs with it, and others with the same
//! risks, for example a container runtime to get its version.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Error of [`run`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started; or this process ignores `SIGCHLD`, so that the exit
    /// status is unknown.
    #[error("cannot start the program")]
    Start(#[source] io::Error),
    /// The program did not end in time and was killed, with its children.
    #[error("the program did not exit in time")]
    TimedOut,
}

/// Size of one read from a pipe.
const CHUNK: usize = 4096;

/// How long a killed program may take until it is left alone: it is stuck in the kernel, such as in a driver that hangs.
const KILLED_WITHIN: Duration = Duration::from_secs(1);

/// Period of the check for an exit, if the program prints nothing.
const TICK: Duration = Duration::from_millis(10);

/// Changes the child's root to `root`. The program's path is then a path inside it.
#[expect(
    unsafe_code,
    reason = "the standard library offers no safe way to chroot a child before exec"
)]
pub fn chroot(command: &mut Command, root: &Path) -> io::Result<()> {
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

/// Makes the kernel kill the child (SIGKILL) when the thread that starts it ends, and so when this process
/// ends for any reason.
///
/// For daemons that must not outlive their supervisor. Start the command on a thread that lives as long as the
/// process: the kernel's signal depends on the thread.
#[expect(
    unsafe_code,
    reason = "the standard library offers no safe way to set a child's PR_SET_PDEATHSIG before exec"
)]
pub fn die_with_this_thread(command: &mut Command) {
    let parent = nix::unistd::getpid();
    // SAFETY: the closure runs between fork and exec and makes two system calls; it touches no lock,
    // heap or state that another thread may have held at the fork.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // If the parent died before that, there will be no signal.
            if nix::unistd::getppid() != parent {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(())
        });
    }
}

/// Runs `command` until it exits, for at most `timeout`, and returns the first
/// `max_output` bytes of each output stream. Further output is read and discarded.
/// The program gets no standard input.
///
/// Blocks. On return, no process of the program's process group is running, so this is not
/// suitable for programs that start a daemon. The exception is a program that is stuck in the kernel: it ends when
/// the kernel lets it, and this returns a second after the timeout.
///
/// # Errors
///
/// Only if the program did not exit by itself. An exit status other than 0 is
/// part of the [`Output`].
pub fn run(mut command: Command, timeout: Duration, max_output: usize) -> Result<Output, Error> {
    let began = Instant::now();
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::Start)?;
    let mut stdout = Stream::new(child.stdout.take().map(OwnedFd::from), max_output);
    let mut stderr = Stream::new(child.stderr.take().map(OwnedFd::from), max_output);
    let exited = loop {
        // Checked before the last drain, so that no output is lost.
        let exited = has_exited(&child);
        stdout.drain();
        stderr.drain();
        let remaining = timeout.saturating_sub(began.elapsed());
        if exited || remaining.is_zero() {
            break exited;
        }
        wait_for_output(&[&stdout, &stderr], remaining);
    };
    // An error (ESRCH) means that the group has no processes.
    let _ = killpg(pid(&child), Signal::SIGKILL);
    if !exited {
        reap(child);
        return Err(Error::TimedOut);
    }
    let status = child.wait().map_err(Error::Start)?;
    Ok(Output {
        status,
        stdout: stdout.output,
        stderr: stderr.output,
    })
}

fn pid(child: &Child) -> Pid {
    // Fits: Linux's limit of process ids is 2^22.
    Pid::from_raw(child.id().cast_signed())
}

/// Whether the child has exited. Does not reap it: while the zombie exists, no other process
/// group can get its id.
fn has_exited(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    match waitid(Id::Pid(pid(child)), flags) {
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => false,
        // An error other than EINTR means that the child no longer exists.
        Ok(_) | Err(_) => true,
    }
}

/// Reaps a killed child. One that is stuck in the kernel, which does not even end then, is left to a thread.
fn reap(mut child: Child) {
    let give_up = Instant::now() + KILLED_WITHIN;
    while !has_exited(&child) && Instant::now() < give_up {
        thread::sleep(TICK);
    }
    if has_exited(&child) {
        // It has an exit status, or is not ours any more.
        let _ = child.wait();
    } else {
        thread::spawn(move || child.wait());
    }
}

fn wait_for_output(streams: &[&Stream], remaining: Duration) {
    let open = streams.iter().filter_map(|stream| stream.pipe.as_ref());
    let mut open: Vec<_> = open
        .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(remaining.min(TICK)).unwrap_or(PollTimeout::ZERO);
    // An interrupted or failed poll only ends the wait early.
    let _ = poll(&mut open, timeout);
}

/// One output stream of the child, read without blocking.
struct Stream {
    /// `None` once the stream has ended.
    pipe: Option<File>,
    /// At most `max_output` bytes.
    output: Vec<u8>,
    max_output: usize,
}

// === impl Stream ===

impl Stream {
    fn new(pipe: Option<OwnedFd>, max_output: usize) -> Self {
        // A pipe that cannot be made non-blocking is not read, because a read could block.
        let pipe = pipe.filter(|fd| fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok());
        Self {
            pipe: pipe.map(File::from),
            output: Vec::new(),
            max_output,
        }
    }

    /// Reads the available output.
    fn drain(&mut self) {
        let mut chunk = [0; CHUNK];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(read) => {
                    let room = self.max_output.saturating_sub(self.output.len());
                    self.output.extend(chunk.iter().take(read.min(room)));
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

    const MAX_OUTPUT: usize = 5000;
    const GIVE_UP: Duration = Duration::from_secs(30);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn both_streams_and_the_status_are_returned() {
        let output = run(sh("echo out; echo err >&2; exit 3"), GIVE_UP, MAX_OUTPUT).unwrap();
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn output_beyond_the_maximum_neither_blocks_nor_fails() {
        let output = run(sh("head -c 1000000 /dev/zero"), GIVE_UP, MAX_OUTPUT).unwrap();
        assert_eq!(output.stdout.len(), MAX_OUTPUT);
        assert!(output.status.success());
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_open_is_killed_with_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; echo done", pid.display());
        let began = Instant::now();
        let output = run(sh(&script), GIVE_UP, MAX_OUTPUT).unwrap();
        assert_eq!(output.stdout, b"done\n");
        assert!(began.elapsed() < GIVE_UP, "waited for the grandchild");
        assert_gone(&std::fs::read_to_string(pid).unwrap());
    }

    #[test]
    fn past_the_deadline_the_whole_group_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        // A busy machine may need longer to start the grandchild.
        let mut timeout = Duration::from_millis(200);
        while !std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
            let error = run(sh(&script), timeout, MAX_OUTPUT).unwrap_err();
            assert!(matches!(error, Error::TimedOut), "{error:?}");
            timeout *= 2;
        }
        assert_gone(&std::fs::read_to_string(pid).unwrap());
    }

    /// A killed grandchild may be a zombie until its new parent reaps it.
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
    fn a_child_that_does_not_end_is_left_alone_and_reaped_later() {
        let child = sh("exec sleep 1000").spawn().unwrap();
        let id = pid(&child);
        reap(child);
        let running = waitid(
            Id::Pid(id),
            WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT,
        );
        assert_eq!(running, Ok(WaitStatus::StillAlive));
        nix::sys::signal::kill(id, Signal::SIGKILL).unwrap();
        let give_up = Instant::now() + GIVE_UP;
        while Path::new(&format!("/proc/{id}")).exists() {
            assert!(Instant::now() < give_up, "it is a zombie");
            thread::sleep(TICK);
        }
    }

    // req: DAEMON-7
    #[test]
    fn a_child_that_dies_with_its_thread_is_killed_when_that_ends() {
        let mut child = std::thread::spawn(|| {
            let mut command = sh("exec sleep 1000");
            die_with_this_thread(&mut command);
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }

    #[test]
    fn the_maximum_timeout_works() {
        let output = run(sh("echo out"), Duration::MAX, MAX_OUTPUT).unwrap();
        assert_eq!(output.stdout, b"out\n");
    }

    #[test]
    fn a_missing_program_fails_to_start() {
        let error = run(Command::new("/nonexistent/tool"), GIVE_UP, MAX_OUTPUT).unwrap_err();
        assert!(
            matches!(&error, Error::Start(e) if e.kind() == io::ErrorKind::NotFound),
            "{error:?}"
        );
    }
}
