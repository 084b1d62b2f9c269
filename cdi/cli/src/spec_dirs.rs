//! The host and the spec directories that the command line names.

use std::io;
use std::path::{Path, PathBuf};

use host_doctor::{Host, Root};
use imex_cdi::{DEFAULT_DIRS, Registry};

use crate::args::SpecDirs;
use crate::document::DocumentError;

/// Whether it is one of the directories that need not exist.
pub(crate) fn is_default(dir: &Path) -> bool {
    DEFAULT_DIRS.iter().any(|default| dir == Path::new(default))
}

// === impl SpecDirs ===

impl SpecDirs {
    pub(crate) fn root(&self) -> Result<Root, DocumentError> {
        Ok(Root::new(&self.root)?)
    }

    pub(crate) fn host(&self) -> Result<Host, DocumentError> {
        Ok(Host::open(&self.root)?)
    }

    /// The directories, below the root.
    pub(crate) fn paths(&self) -> Result<Vec<PathBuf>, DocumentError> {
        let root = self.root()?;
        Ok(self.dirs.iter().map(|dir| root.path(dir)).collect())
    }

    /// An error if a directory that was named does not exist: it is misspelt, or
    /// the host is not as it was thought to be. That one of the default ones
    /// does not exist is as good as an empty one.
    pub(crate) fn refuse_absent(&self) -> Result<(), DocumentError> {
        let root = self.root()?;
        let named = self.dirs.iter().filter(|dir| !is_default(dir));
        for path in named.map(|dir| root.path(dir)) {
            if let Err(source) = path.symlink_metadata()
                && source.kind() == io::ErrorKind::NotFound
            {
                return Err(DocumentError::SpecDir { path, source });
            }
        }
        Ok(())
    }

    pub(crate) fn registry(&self) -> Result<Registry, DocumentError> {
        Ok(Registry::load(&self.paths()?))
    }
}
