//! The device nodes of the host: a plan takes the numbers that a spec omits from them.

use std::io;
use std::path::PathBuf;

use nix::sys::stat::{self, SFlag};

use crate::DeviceType;

/// Looks up device nodes of the host that a container will run on. [`OsHost`] does
/// it with lstat(2); tests and debuggers of another host bring their own.
pub trait HostNodes {
    /// What is at `path`, as lstat(2) reports it.
    ///
    /// Called by [`Plan::new`](crate::Plan::new) only, on the thread of its caller,
    /// before anything is changed: once for each device node of the edits. For fully specified
    /// nodes, only the mode is used. `path` is the host path as the spec has it: normally absolute,
    /// but not checked, and it may repeat.
    ///
    /// The implementation must not follow a link at `path` itself (its answer is
    /// [`HostNode::NotADevice`]), and must not block on a device or pipe: nothing is
    /// ever opened.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is nothing at `path`, or any other reason why it cannot be
    /// inspected. An error ends the planning with
    /// [`PlanError::HostNode`](crate::PlanError::HostNode), unless the device node is
    /// fully specified.
    fn lstat(&self, path: &str) -> io::Result<HostNode>;
}

/// What is at a path of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostNode {
    /// A device node or a fifo.
    Device(HostDevice),
    /// Anything else, such as a link to a device node.
    NotADevice,
}

/// A device node of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDevice {
    /// Block or character device, or fifo. Never
    /// [`Unbuffered`](DeviceType::Unbuffered), another name for a character device
    /// that the kernel does not use.
    pub device_type: DeviceType,
    /// Device major; 0 for a fifo.
    pub major: i64,
    /// Device minor; 0 for a fifo.
    pub minor: i64,
    /// Permission bits, including set-user-ID, set-group-ID and sticky.
    pub mode: u32,
}

/// The host that this process runs on, or one whose root is mounted somewhere.
#[derive(Debug, Clone)]
pub struct OsHost {
    root: PathBuf,
}

// === impl OsHost ===

impl OsHost {
    /// The host whose root directory is at `root`, `/` for this one.
    ///
    /// Links in the directories of a path are resolved by this process, so an
    /// absolute one leads out of `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl HostNodes for OsHost {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        let found = stat::lstat(&self.root.join(path.trim_start_matches('/')))?;
        let device_type = match SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFBLK => DeviceType::Block,
            SFlag::S_IFCHR => DeviceType::Char,
            SFlag::S_IFIFO => DeviceType::Fifo,
            _ => return Ok(HostNode::NotADevice),
        };
        Ok(HostNode::Device(HostDevice {
            device_type,
            major: number(stat::major(found.st_rdev)),
            minor: number(stat::minor(found.st_rdev)),
            mode: found.st_mode & 0o7777,
        }))
    }
}

/// The kernel gives 32 bits to each number.
fn number(part: u64) -> i64 {
    i64::try_from(part).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn dev_null_is_a_character_device_1_3() {
        let null = OsHost::new("/").lstat("/dev/null").unwrap();
        let HostNode::Device(null) = null else {
            panic!("{null:?}");
        };
        assert_eq!(null.device_type, DeviceType::Char);
        assert_eq!((null.major, null.minor), (1, 3));
        assert_eq!(null.mode & 0o666, 0o666);
    }

    #[test]
    fn a_mode_has_its_sticky_bit() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("fifo");
        nix::unistd::mkfifo(&path, stat::Mode::S_IRWXU).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1640)).unwrap();
        let fifo = HostDevice {
            device_type: DeviceType::Fifo,
            major: 0,
            minor: 0,
            mode: 0o1640,
        };
        let found = OsHost::new(root.path()).lstat("/fifo").unwrap();
        assert_eq!(found, HostNode::Device(fifo));
    }

    #[test]
    fn a_link_to_a_device_is_not_a_device() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", root.path().join("null")).unwrap();
        let host = OsHost::new(root.path());
        assert_eq!(host.lstat("/null").unwrap(), HostNode::NotADevice);
    }

    #[test]
    fn a_path_is_looked_up_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let error = OsHost::new(root.path()).lstat("/dev/null").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
