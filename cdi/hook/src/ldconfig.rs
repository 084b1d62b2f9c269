//! Runs the host's `ldconfig` in a container's root.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::HookError;
use crate::isolated;
use crate::loader_config;
use crate::root::Root;

pub(crate) const DEFAULT: &str = "/sbin/ldconfig";
/// Ubuntu's and NVIDIA's `/sbin/ldconfig` may be a script that calls this.
const REAL: &str = ".real";
/// `MFD_EXEC`, which nix does not have: Linux 6.3 and later can refuse to execute files without it.
const EXECUTABLE: MFdFlags = MFdFlags::from_bits_retain(0x10);
const MAX_PROGRAM: u64 = 64 << 20;
/// Maximum length of ldconfig's messages that are read for a reason.
const MAX_MESSAGES: u64 = 64 << 10;

/// Writes `/etc/ld.so.cache` and links by SONAME in the loader's folders. `arguments` are further folders.
///
/// The image's files, which `ldconfig` reads and follows, may be hostile. It runs from a sealed copy in memory, so
/// that no link of `/proc` leads to the host's program to overwrite it. This program is started again to exchange
/// its root for the container's ([`crate::isolated`]).
pub(crate) fn run(root: &Root, program: &Path, arguments: &[String]) -> Result<(), HookError> {
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
    match messages(command) {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(HookError::Ldconfig(reason)),
        Err(error) => Err(HookError::Ldconfig(error.to_string())),
    }
}

/// Runs a command, and returns its last message if it fails.
fn messages(mut command: Command) -> io::Result<Option<String>> {
    let mut child = command.spawn()?;
    let mut text = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.by_ref().take(MAX_MESSAGES).read_to_end(&mut text)?;
        io::copy(&mut stderr, &mut io::sink())?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.is_empty());
    Ok(Some(last.map_or_else(|| status.to_string(), str::to_owned)))
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

    #[test]
    fn the_reason_of_a_failure_is_the_last_message() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        failing.stderr(Stdio::piped());
        assert_eq!(messages(failing).unwrap().unwrap(), "last");
        let mut quiet = Command::new("sh");
        quiet.args(["-c", "exit 3"]).stderr(Stdio::piped());
        assert_eq!(messages(quiet).unwrap().unwrap(), "exit status: 3");
        let mut verbose = Command::new("sh");
        verbose.args(["-c", "head -c 1000000 /dev/zero >&2"]);
        verbose.stderr(Stdio::piped());
        assert_eq!(messages(verbose).unwrap(), None);
    }
}
