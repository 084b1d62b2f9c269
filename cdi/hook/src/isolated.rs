//! The process that becomes `ldconfig`: it enters a container's root in namespaces of its own.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{chdir, chroot, execveat, pivot_root};

use crate::error::HookError;

/// The internal command by which this program starts itself: ROOT ARGUMENT...
pub(crate) const COMMAND: &str = "ldconfig-in-root";

const NONE: Option<&str> = None;

/// An image with 20 000 libraries takes 16 MiB. Beyond the limit, `ldconfig` ignores the rest of a file, or fails.
const MAX_MEMORY: rlim_t = 256 << 20;

/// Executes the program that is open as standard input, with `root` as its root directory.
///
/// Its pid namespace is new already. It reaches no process, network or file system of the host: magic links of
/// `/proc`, wherever the container has one mounted, would lead there. It ends with the process that started it.
// req: GPU-10
pub(crate) fn exec(root: &Path, arguments: &[OsString]) -> Result<Infallible, HookError> {
    limit().map_err(HookError::isolating("set limits"))?;
    let namespaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC;
    unshare(namespaces).map_err(HookError::isolating("make namespaces"))?;
    let private = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(NONE, "/", NONE, private, NONE).map_err(HookError::isolating("separate mounts"))?;
    let root = root
        .canonicalize()
        .map_err(HookError::isolating("find the container's root"))?;
    hide_proc(&root).map_err(HookError::isolating("hide /proc"))?;
    enter(&root).map_err(HookError::isolating("enter the container's root"))?;
    let name = std::iter::once(OsString::from("ldconfig"));
    let arguments = name
        .chain(arguments.iter().cloned())
        .map(OsString::into_vec);
    let arguments: Result<Vec<CString>, _> = arguments.map(CString::new).collect();
    let arguments = arguments.map_err(|error| HookError::Usage(error.to_string()))?;
    let environment: [CString; 0] = [];
    execveat(
        io::stdin(),
        c"",
        &arguments,
        &environment,
        AtFlags::AT_EMPTY_PATH,
    )
    .map_err(HookError::isolating(
        "execute a copy (if it is linked dynamically, the image needs its loader)",
    ))
}

/// Limits the process. Not its address space: `ldconfig` maps libraries, some of them gigabytes long.
// req: GPU-20
fn limit() -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    let (_, hard) = getrlimit(Resource::RLIMIT_DATA)?;
    let most = hard.min(MAX_MEMORY);
    setrlimit(Resource::RLIMIT_DATA, most, most)
}

/// Mounts an empty directory over each `/proc` and `/sys` of the container.
fn hide_proc(root: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let table = std::fs::read("/proc/self/mountinfo")?;
    for place in kernel_mounts(&table).filter(|it| it.starts_with(root)) {
        match mount(Some("tmpfs"), &place, Some("tmpfs"), flags, NONE) {
            // Below one that is hidden already.
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The mount points of `proc` and `sysfs` in the text of `mountinfo` (proc(5)).
fn kernel_mounts(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let place = fields.nth(4)?;
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        (kind == b"proc" || kind == b"sysfs").then(|| unescaped(place))
    })
}

/// A path in which space, tab, newline and backslash are octal numbers.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    loop {
        rest = match rest {
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
            [] => return PathBuf::from(OsString::from_vec(bytes)),
        };
    }
}

/// Makes `root` the root directory, and takes the host's away.
fn enter(root: &Path) -> nix::Result<()> {
    // Only a mount can become the root.
    mount(
        Some(root),
        root,
        NONE,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NONE,
    )?;
    chdir(root)?;
    match pivot_root(".", ".") {
        // The host's root is now mounted over the container's.
        Ok(()) => umount2(".", MntFlags::MNT_DETACH)?,
        // The host runs from its initramfs, or this process in a chroot below a shared mount. The host's files are
        // still mounted, below the container's, but no path leads there.
        Err(Errno::EINVAL) => {
            mount(Some("."), "/", NONE, MsFlags::MS_MOVE, NONE)?;
            chroot(".")?;
        }
        Err(error) => return Err(error),
    }
    chdir("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_proc_and_sysfs_are_found_wherever_they_are() {
        let table = b"22 1 0:21 / /root/proc rw shared:5 - proc proc rw
23 1 0:22 / /root/a\\040b\\134 rw - sysfs sysfs rw
24 1 0:23 / /root/proc/x rw master:1 propagate_from:2 - tmpfs proc rw
25 1 0:21 /1 /host/proc rw - proc none rw
garbage
";
        let found: Vec<PathBuf> = kernel_mounts(table).collect();
        assert_eq!(
            found,
            ["/root/proc", "/root/a b\\", "/host/proc"].map(PathBuf::from)
        );
    }
}
