//! The root directory of an NVIDIA driver installation, and the search for its files.

use std::io;
use std::iter;
use std::path::{Path, PathBuf};

use crate::not_found::{DriverFileNotFound, RejectReason, RejectedPath};
use crate::{elf, missing_link, resolve};

/// The root directory of a driver installation: `/` on a host with the driver installed,
/// `/run/nvidia/driver` with the driver container, or a mount of either.
///
/// Files are searched in the order of NVIDIA's plugin, then in the directories of other
/// distributions. Symbolic links are resolved inside the root, so an absolute link never
/// leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverRoot {
    path: PathBuf,
}

const LIBRARY: &str = "libnvidia-ml.so.1";

/// Directories that are searched after the root itself: those of NVIDIA's plugin in its order,
/// then those that its CDI library searches too (Debian's, behind `update-alternatives`), then
/// those of other distributions.
const LIBRARY_DIRS: [&str; 14] = [
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
    // Bottlerocket since bottlerocket-kernel-kit#425, and Arch.
    "usr/lib",
    // Bottlerocket before: the specs of its kernel kit, kmod-*-nvidia.
    "usr/lib/nvidia/tesla",
    // Talos: siderolabs/extensions, nvidia-gpu.
    "usr/local/glibc/usr/lib",
    // NixOS: hardware.graphics.
    "run/opengl-driver/lib",
];
const TOOL_DIRS: [&str; 7] = [
    "opt/bin",
    "usr/bin",
    "usr/sbin",
    "bin",
    "sbin",
    // Talos.
    "usr/local/bin",
    // Bottlerocket before bottlerocket-kernel-kit#84.
    "usr/libexec/nvidia/tesla/bin",
];

/// Directories in a host's root that are the root of a driver.
const NESTED_ROOTS: [&str; 2] = [
    // The GPU operator's driver container.
    "run/nvidia/driver",
    // GKE's installer: the value of nvidiaDriverRoot in Google's documentation.
    "home/kubernetes/bin/nvidia",
];

/// Returns the version in the name of a library from [`DriverRoot::find_library`]: `580.82.07` of
/// `libnvidia-ml.so.580.82.07`. `None` if the file has another name.
pub fn library_version(library: &Path) -> Option<&str> {
    let name = library.file_name()?.to_str()?;
    let version = name.strip_prefix("libnvidia-ml.so.")?;
    version.contains('.').then_some(version)
}

// === impl DriverRoot ===

impl DriverRoot {
    /// Creates a root at `path`. Does no I/O: the driver, and `path` itself, may appear later.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path passed to [`new`](Self::new).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// This root, and the existing driver roots within it: of the GPU Operator's driver
    /// container and of GKE's installer. Links in them are resolved inside them.
    ///
    /// [`find_library`](Self::find_library) of the first root also searches the others; the
    /// library's path shows which of them has it.
    pub fn with_nested(&self) -> impl Iterator<Item = Self> {
        let nested = NESTED_ROOTS.iter().filter_map(|nested| {
            let inside = resolve::path_inside(&self.path, Path::new(nested)).ok()?;
            Some(Self::new(self.path.join(inside)))
        });
        iter::once(self.clone()).chain(nested)
    }

    /// Finds the regular file behind `libnvidia-ml.so.1` in this root or a root
    /// [within it](Self::with_nested). The returned path has no links below the root.
    ///
    /// Only a complete library for this machine is accepted. Other files with that name are
    /// recorded in the error, and the search continues.
    pub fn find_library(&self) -> Result<PathBuf, DriverFileNotFound> {
        let mut all = self.not_found(LIBRARY, vec![]);
        for root in self.with_nested() {
            match root.find(LIBRARY, &LIBRARY_DIRS, elf::check_loadable) {
                Ok(library) => return Ok(library),
                Err(mut error) => {
                    missing_link::explain(&mut error);
                    all.rejected.append(&mut error.rejected);
                }
            }
        }
        all.nested = &NESTED_ROOTS;
        Err(all)
    }

    /// The root with the driver's library: this one or one [within it](Self::with_nested). Without a library, this
    /// one.
    #[must_use]
    pub fn with_library(&self) -> Self {
        let Ok(library) = self.find_library() else {
            return self.clone();
        };
        let roots = self
            .with_nested()
            .filter(|it| library.starts_with(it.path()));
        let deepest = roots.max_by_key(|it| it.path().components().count());
        deepest.unwrap_or_else(|| self.clone())
    }

    /// Finds the regular file behind one of the driver's programs, such as `nvidia-smi` or
    /// `nvidia-imex-ctl`. Searches only this root, because a program runs in the root that has
    /// it.
    pub fn find_tool(&self, name: &str) -> Result<PathBuf, DriverFileNotFound> {
        self.find(name, &TOOL_DIRS, |_| Ok(()))
    }

    /// The possible roots within this one, relative to it.
    pub(crate) const fn nested_places() -> &'static [&'static str] {
        &NESTED_ROOTS
    }

    /// Follows `path` from this root to a file of any kind, and returns that file's path relative to the root,
    /// without links. Absolute links and `..` do not leave the root; links in the root's own path are followed
    /// as usual. Two paths to one file have the same result.
    ///
    /// # Errors
    ///
    /// The file does not exist or cannot be reached.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<PathBuf, RejectReason> {
        resolve::path_inside(&self.path, path.as_ref())
    }

    /// The existing ones of the known library directories, without duplicates, in the order in which libraries
    /// are searched. They include this root's [`path`](Self::path) and have no links below it.
    pub fn library_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = Vec::new();
        for dir in LIBRARY_DIRS.iter().chain(&["lib"]) {
            let Ok(inside) = resolve::path_inside(&self.path, Path::new(dir)) else {
                continue;
            };
            let dir = self.path.join(inside);
            if dir.is_dir() && !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        dirs
    }

    fn find(
        &self,
        name: &str,
        dirs: &[&str],
        check: impl Fn(&Path) -> Result<(), RejectReason>,
    ) -> Result<PathBuf, DriverFileNotFound> {
        if let Err(reason) = self.check_directory() {
            let path = self.path.clone();
            return Err(self.not_found(name, vec![RejectedPath { path, reason }]));
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
        Err(self.not_found(name, rejected))
    }

    fn not_found(&self, name: &str, rejected: Vec<RejectedPath>) -> DriverFileNotFound {
        DriverFileNotFound {
            name: name.to_owned(),
            root: self.path.clone(),
            nested: &[],
            rejected,
        }
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
