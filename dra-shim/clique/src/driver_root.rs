//! The root below which a host's NVIDIA driver is installed, and the search in it.

use std::io;
use std::iter;
use std::path::{Path, PathBuf};

use crate::not_found::{DriverFileNotFound, RejectReason, RejectedPath};
use crate::{elf, missing_link, resolve};

/// The directory below which the driver's files lie as if it were `/`: `/` on
/// a host with the driver installed, `/run/nvidia/driver` with the driver
/// container, or wherever either is mounted.
///
/// Files are searched in the order of NVIDIA's own plugin, then where other
/// makers of hosts install the driver. Symbolic links are resolved inside the
/// root, so an absolute link never leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverRoot {
    path: PathBuf,
}

const LIBRARY: &str = "libnvidia-ml.so.1";

/// Searched after the root itself. The order is that of NVIDIA's plugin,
/// followed by the places where its CDI library looks as well (Debian's, behind
/// `update-alternatives`), and by those of other makers.
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

/// Within a host's root, where drivers have a root of their own.
const NESTED_ROOTS: [&str; 2] = [
    // The GPU operator's driver container.
    "run/nvidia/driver",
    // GKE's installer: what Google's documentation sets nvidiaDriverRoot to.
    "home/kubernetes/bin/nvidia",
];

/// `580.82.07` of `libnvidia-ml.so.580.82.07`, as [`DriverRoot::find_library`] finds it; `None` if the file is
/// called otherwise.
pub fn library_version(library: &Path) -> Option<&str> {
    let name = library.file_name()?.to_str()?;
    let version = name.strip_prefix("libnvidia-ml.so.")?;
    version.contains('.').then_some(version)
}

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

    /// This root, and the drivers' own roots within it that exist: that of the
    /// GPU operator's driver container and that of GKE's installer. Links in them
    /// are resolved inside them.
    ///
    /// [`find_library`](Self::find_library) of the first searches the others, too: which of
    /// them has the library, its path tells.
    pub fn with_nested(&self) -> impl Iterator<Item = Self> {
        let nested = NESTED_ROOTS.iter().filter_map(|nested| {
            let inside = resolve::path_inside(&self.path, Path::new(nested)).ok()?;
            Some(Self::new(self.path.join(inside)))
        });
        iter::once(self.clone()).chain(nested)
    }

    /// Finds the regular file behind `libnvidia-ml.so.1` in this root or in one
    /// [within](Self::with_nested); the path returned has no link in it below the
    /// root.
    ///
    /// Only a complete library for this machine counts. Anything else of that
    /// name is recorded in the error and does not end the search.
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

    /// Finds the regular file behind one of the driver's programs, such as
    /// `nvidia-smi` or `nvidia-imex-ctl`, in this root only: programs are run in
    /// the root that they are found in.
    pub fn find_tool(&self, name: &str) -> Result<PathBuf, DriverFileNotFound> {
        self.find(name, &TOOL_DIRS, |_| Ok(()))
    }

    /// Where roots within this one are searched, relative to it.
    pub(crate) const fn nested_places() -> &'static [&'static str] {
        &NESTED_ROOTS
    }

    /// The directories of libraries that there are, as paths without a link below the root, each once.
    pub(crate) fn library_dirs(&self) -> Vec<PathBuf> {
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
