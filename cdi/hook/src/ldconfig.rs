//! Runs the host's `ldconfig` in a container's root.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::HookError;
use crate::isolated;
use crate::loader_config;
use crate::root::Root;

pub(crate) const DEFAULT: &str = "/sbin/ldconfig";
/// An image with 20 000 libraries takes 4 s on a busy host. kubelet waits 2 min for a container, so its events show the
/// hook's reason.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Ubuntu's and NVIDIA's `/sbin/ldconfig` may be a script that calls this.
const REAL: &str = ".real";
/// `MFD_EXEC`, which nix does not have: Linux 6.3 and later can refuse to execute files without it.
const EXECUTABLE: MFdFlags = MFdFlags::from_bits_retain(0x10);
const MAX_PROGRAM: u64 = 64 << 20;
/// Maximum length of ldconfig's messages that are read for a reason.
const MAX_MESSAGES: usize = 64 << 10;

/// Writes `/etc/ld.so.cache` and links by SONAME in the loader's folders. `arguments` are further folders.
///
/// The image's files, which `ldconfig` reads and follows, may be hostile. It runs from a sealed copy in memory, so
/// that no link of `/proc` leads to the host's program to overwrite it. This program is started again to exchange
/// its root for the container's ([`crate::isolated`]). What it reads may be a named pipe or endless: past `timeout` it
/// is killed.
// req: GPU-20
pub(crate) fn run(
    root: &Root,
    program: &Path,
    timeout: Duration,
    arguments: &[String],
) -> Result<(), HookError> {
    let sealed = open(program).and_then(|file| sealed_copy(&file));
    let sealed = sealed.map_err(|error| HookError::NoLdconfig {
        path: program.to_owned(),
        reason: error.to_string(),
    })?;
    // For the process that is started next.
    unshare(CloneFlags::CLONE_NEWPID).map_err(HookError::isolating("make a pid namespace"))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(isolated::COMMAND).arg(root.host_path());
    command.args(["-f", loader_config::MAIN, "-C", "/etc/ld.so.cache"]);
    command.args(arguments).env_clear();
    // It prints nothing on standard output. /dev/null may be missing where the hook runs.
    command.stdin(sealed).stderr(Stdio::piped());
    match messages(command, timeout) {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(HookError::Ldconfig(reason)),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(HookError::LdconfigTimeout {
            root: root.host_path().to_owned(),
            seconds: timeout.as_secs(),
        }),
        Err(error) => Err(HookError::Ldconfig(error.to_string())),
    }
}

/// Runs a command, and returns its last message if it fails. Past the timeout, the error is `TimedOut`.
fn messages(mut command: Command, timeout: Duration) -> io::Result<Option<String>> {
    let end = Instant::now() + timeout;
    let mut child = command.spawn()?;
    let text = match child.stderr.take() {
        Some(stderr) => read_until(end, stderr),
        None => Ok(Vec::new()),
    };
    // Also without messages to come: it has ended, and keeps its exit code, or it has only closed standard error.
    child.kill()?;
    // Past the timeout it is not waited for: the kernel may keep it, as while a file system hangs.
    let text = text?;
    let status = child.wait()?;
    if status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.is_empty());
    Ok(Some(last.map_or_else(|| status.to_string(), str::to_owned)))
}

/// Reads to the end, and keeps the first [`MAX_MESSAGES`] bytes.
fn read_until(end: Instant, mut pipe: ChildStderr) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let most = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut pipes = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if left.is_zero() || poll(&mut pipes, most)? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let len = pipe.read(&mut buffer)?;
        if len == 0 {
            return Ok(text);
        }
        let room = MAX_MESSAGES.saturating_sub(text.len());
        text.extend(buffer.iter().take(len.min(room)));
    }
}

/// Opens the program itself where `program` is a script around it.
fn open(program: &Path) -> io::Result<File> {
    let mut real = program.as_os_str().to_owned();
    real.push(REAL);
    let file = File::open(PathBuf::from(real)).or_else(|_| File::open(program))?;
    let mut magic = [0; 4];
    let is_program = file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF";
    if !is_program {
        return Err(io::Error::other("it is not an ELF program"));
    }
    Ok(file)
}

// req: GPU-10
fn sealed_copy(mut program: &File) -> io::Result<File> {
    let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC;
    let copy = match memfd_create(c"ldconfig", flags | EXECUTABLE) {
        Err(Errno::EINVAL) => memfd_create(c"ldconfig", flags),
        made => made,
    };
    let mut copy = File::from(copy?);
    if io::copy(&mut program.take(MAX_PROGRAM), &mut copy)? == MAX_PROGRAM {
        return Err(io::Error::other("it is too long"));
    }
    copy.rewind()?;
    let seals = [
        SealFlag::F_SEAL_WRITE,
        SealFlag::F_SEAL_SHRINK,
        SealFlag::F_SEAL_GROW,
        SealFlag::F_SEAL_SEAL,
    ];
    fcntl(&copy, FcntlArg::F_ADD_SEALS(seals.into_iter().collect()))?;
    program.rewind()?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_copy_can_be_read_and_executed_and_not_changed() {
        let program = File::open("/proc/self/exe").unwrap();
        let mut copy = sealed_copy(&program).unwrap();
        let mut magic = [0; 4];
        copy.read_exact(&mut magic).unwrap();
        assert_eq!(magic, *b"\x7fELF");
        assert!(copy.write_all(b"x").is_err());
        assert!(copy.set_len(0).is_err());
    }

    #[test]
    fn a_script_is_no_ldconfig_and_the_program_beside_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("ldconfig");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = open(&script).unwrap_err();
        assert_eq!(error.to_string(), "it is not an ELF program");
        std::fs::copy("/proc/self/exe", dir.path().join("ldconfig.real")).unwrap();
        open(&script).unwrap();
    }

    /// Runs a shell script instead.
    fn script(text: &str, timeout: Duration) -> io::Result<Option<String>> {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stderr(Stdio::piped());
        messages(command, timeout)
    }

    #[test]
    fn the_reason_of_a_failure_is_the_last_message() {
        let run = |text| script(text, DEFAULT_TIMEOUT).unwrap();
        let failing = run("echo first >&2; echo last >&2; exit 3");
        assert_eq!(failing.unwrap(), "last");
        assert_eq!(run("exit 3").unwrap(), "exit status: 3");
        assert_eq!(run("head -c 1000000 /dev/zero >&2"), None);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_whether_it_writes_or_not() {
        for text in ["exec sleep 1000", "exec yes >&2"] {
            let error = script(text, Duration::from_millis(50)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        let killed = script("exec sleep 1000 2>&-", DEFAULT_TIMEOUT).unwrap();
        assert_eq!(killed.unwrap(), "signal: 9 (SIGKILL)");
    }
}
