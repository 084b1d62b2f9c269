//! A host: its files, its device nodes, and the majors of its drivers.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use imex_cdi::{HostNode, HostNodes, PROC_DEVICES};

use crate::files::HostFiles;
use crate::majors::Majors;
use crate::root::{Root, RootError};

/// The host that is examined: this one, or one whose root is mounted here.
#[derive(Debug)]
pub struct Host {
    files: HostFiles,
    /// Read once, when the host was opened.
    majors: Option<Majors>,
}

// === impl Host ===

impl Host {
    /// The host with its root directory at `root`.
    pub fn open(root: &Path) -> Result<Self, RootError> {
        Root::new(root).map(Self::new)
    }

    /// As [`Host::open`], for a root that was opened before.
    pub fn new(root: Root) -> Self {
        let majors = Majors::read(&root.resolve(Path::new(PROC_DEVICES)));
        let files = HostFiles::new(root);
        Self { files, majors }
    }

    /// Its files, by the names that the host has for them.
    pub fn files(&self) -> &HostFiles {
        &self.files
    }

    /// Whether it is the host that this process runs on, and its root is this
    /// process's.
    pub fn is_this_host(&self) -> bool {
        self.files.is_this_host()
    }

    /// The majors of its drivers; `None` if `/proc/devices` cannot be read.
    pub fn majors(&self) -> Option<&Majors> {
        self.majors.as_ref()
    }

    /// Whether the driver of the IMEX channels is loaded.
    pub fn has_channels(&self) -> bool {
        self.majors.as_ref().is_some_and(Majors::has_channels)
    }

    /// What there is at a path instead of a device node; `None` if nothing is,
    /// or it cannot be examined.
    pub(crate) fn file_kind(&self, path: &str) -> Option<&'static str> {
        let found = fs::symlink_metadata(self.files.resolve(path)).ok()?;
        let kind = found.file_type();
        Some(match () {
            () if kind.is_symlink() => "a symbolic link",
            () if kind.is_dir() => "a directory",
            () if kind.is_file() => "a regular file",
            () if kind.is_socket() => "a socket",
            () => return None,
        })
    }
}

impl HostNodes for Host {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        self.files.lstat(path)
    }
}
