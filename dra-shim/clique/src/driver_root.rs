//! The root below which a host's NVIDIA driver is installed, and the search in it.

use std::io;
use std::path::{Path, PathBuf};

use crate::not_found::{DriverFileNotFound, RejectReason, RejectedPath};
use crate::{elf, missing_link, resolve};

/// The directory below which the driver's files lie as if it were `/`: `/` on
/// a host with the driver installed, `/run/nvidia/driver` with the driver
/// container, or wherever either is mounted.
///
/// Files are searched in the order of NVIDIA's own plugin. Symbolic links are
/// resolved inside the root, so an absolute link never leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverRoot {
    path: PathBuf,
}

const LIBRARY: &str = "libnvidia-ml.so.1";

/// Searched after the root itself. The order is that of NVIDIA's plugin,
/// followed by the places where its CDI library looks as well (Debian's, behind
/// `update-alternatives`).
const LIBRARY_DIRS: [&str; 10] = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "lib/x86_64-linux-gnu/nvidia/current",
    "lib/aarch64-linux-gnu/nvidia/current",
];
const TOOL_DIRS: [&str; 5] = ["opt/bin", "usr/bin", "usr/sbin", "bin", "sbin"];

// === impl DriverRoot ===

impl DriverRoot {
    /// The driver below `path`. Does no I/O: the driver, and `path` itself, may
    /// appear later.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path that [`new`](Self::new) was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the regular file behind `libnvidia-ml.so.1`; the path returned has
    /// no link in it below the root.
    ///
    /// Only a complete library for this machine counts. Anything else of that
    /// name is recorded in the error and does not end the search.
    pub fn find_library(&self) -> Result<PathBuf, DriverFileNotFound> {
        let mut found = self.find(LIBRARY, &LIBRARY_DIRS, elf::check_loadable);
        if let Err(not_found) = &mut found {
            missing_link::explain(not_found);
        }
        found
    }

    /// Finds the regular file behind one of the driver's programs, such as
    /// `nvidia-smi` or `nvidia-imex-ctl`.
    pub fn find_tool(&self, name: &str) -> Result<PathBuf, DriverFileNotFound> {
        self.find(name, &TOOL_DIRS, |_| Ok(()))
    }

    fn find(
        &self,
        name: &str,
        dirs: &[&str],
        check: impl Fn(&Path) -> Result<(), RejectReason>,
    ) -> Result<PathBuf, DriverFileNotFound> {
        let not_found = |rejected| DriverFileNotFound {
            name: name.to_owned(),
            root: self.path.clone(),
            rejected,
        };
        if let Err(reason) = self.check_directory() {
            let path = self.path.clone();
            return Err(not_found(vec![RejectedPath { path, reason }]));
        }
        let mut rejected = Vec::new();
        for dir in [""].iter().chain(dirs) {
            let candidate = Path::new(dir).join(name);
            let found = resolve::regular_file(&self.path, &candidate);
            match found.and_then(|file| check(&file).map(|()| file)) {
                Ok(file) => return Ok(file),
                Err(reason) => rejected.push(RejectedPath {
                    path: self.path.join(candidate),
                    reason,
                }),
            }
        }
        Err(not_found(rejected))
    }

    fn check_directory(&self) -> Result<(), RejectReason> {
        match self.path.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(RejectReason::NotADirectory),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(RejectReason::Missing),
            Err(e) => Err(RejectReason::Unreadable(e.kind())),
        }
    }
}

#[cfg(test)]
#[path = "driver_root_tests.rs"]
mod tests;
