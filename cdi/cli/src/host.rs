//! A host as a spec's nodes are held against it.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use imex_cdi::{HostNode, HostNodes, PROC_DEVICES};

use crate::args::SpecDirs;
use crate::document::DocumentError;
use crate::majors::Majors;
use crate::root::Root;

/// A host's nodes, and the majors of its drivers if it tells them.
#[derive(Debug)]
pub(crate) struct Host {
    root: Root,
    pub(crate) majors: Option<Majors>,
}

impl Host {
    pub(crate) fn new(root: Root) -> Self {
        let majors = Majors::read(&root.path(Path::new(PROC_DEVICES)));
        Self { root, majors }
    }

    /// Whether the driver of the IMEX channels is loaded.
    pub(crate) fn has_channels(&self) -> bool {
        self.majors.as_ref().is_some_and(Majors::has_channels)
    }

    /// What stands at a path, in a word; nothing if that cannot be said.
    pub(crate) fn what(&self, path: &str) -> Option<&'static str> {
        let found = fs::symlink_metadata(self.root.path(Path::new(path))).ok()?;
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
        self.root.lstat(path)
    }
}

// === impl SpecDirs ===

impl SpecDirs {
    pub(crate) fn host(&self) -> Result<Host, DocumentError> {
        Ok(Host::new(self.root()?))
    }
}
