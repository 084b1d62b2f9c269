//! The identity of a file.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::root::Root;

/// Identifies a file, through whatever mount it is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The number of its device, as `stat` has it.
    pub device: u64,
    /// Its inode on that device.
    pub inode: u64,
}

// === impl FileId ===

impl FileId {
    /// The file at `path` below `root`; of a link, the link itself.
    pub(crate) fn at(root: &Root, path: &str) -> Option<Self> {
        let found = root.resolve(Path::new(path)).symlink_metadata().ok()?;
        Some(Self::from_metadata(&found))
    }

    pub(crate) fn from_metadata(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

impl fmt::Display for FileId {
    /// The device as `/proc/PID/mountinfo` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode } = self;
        let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
        let minor = (device & 0xff) | (device >> 12 & !0xff);
        write!(f, "inode {inode} of device {major}:{minor}")
    }
}
