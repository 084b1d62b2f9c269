//! Where a host's NVIDIA driver is installed, seen from this process.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::line::Shown;
use crate::{elf, resolve, unlinked};

/// The directory below which the driver's files lie as if it were `/`: `/` on
/// a host with the driver installed, `/run/nvidia/driver` with the driver
/// container, or wherever either is mounted.
///
/// Files are searched in the order of NVIDIA's own plugin; symbolic links are
/// resolved against the root, so an absolute link never leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverRoot {
    path: PathBuf,
}

/// A file that is nowhere below the root, with every place that was tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NotFound {
    /// What was searched for.
    pub name: String,
    /// The root it was searched under.
    pub root: PathBuf,
    /// Each candidate in search order. One entry, the root itself, if the root
    /// is not a directory.
    pub rejected: Vec<Rejected>,
}

/// One candidate and why it would not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The candidate, with the root in front.
    pub path: PathBuf,
    /// Why not.
    pub reason: Reason,
}

/// Why a candidate would not do.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// There is nothing by that name, or no directory for it.
    Missing,
    /// There is nothing by that name, and beside it the library of which it
    /// should be a link (only of libraries).
    NotLinked {
        /// The library's name, in the same directory.
        library: String,
    },
    /// It is there and is a link, and what it leads to does not exist.
    BrokenLink {
        /// The missing path, as seen from inside the root.
        missing: PathBuf,
    },
    /// Its links lead in a circle.
    LinkLoop,
    /// It is a directory, a device or the like.
    NotAFile,
    /// It is a file and no ELF shared library (only of libraries, as the next two).
    NotALibrary,
    /// It is a library that this process cannot load.
    WrongArchitecture {
        /// What it is for.
        found: String,
    },
    /// It is a library whose end is missing, as while it is being copied.
    CutShort {
        /// How many bytes there are.
        size: u64,
        /// How many its headers announce at the least.
        needed: u64,
    },
    /// It is not a directory (only of the root itself).
    NotADirectory,
    /// The file system refused to say.
    Unreadable(io::ErrorKind),
}

pub(crate) const LIBRARY: &str = "libnvidia-ml.so.1";

/// Below the root itself, which is searched first. The order is that of NVIDIA's
/// plugin, and after it come the places where its CDI library looks as well
/// (Debian's, behind `update-alternatives`).
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
    /// The driver below `path`. Nothing is looked at until something is
    /// searched for: a driver may appear later.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The root as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The regular file behind `libnvidia-ml.so.1`, with no link left below
    /// the root: a whole library for this machine. What will not load does not
    /// keep one from being found that will.
    pub fn library(&self) -> Result<PathBuf, NotFound> {
        let mut found = self.find(LIBRARY, &LIBRARY_DIRS, elf::loadable);
        if let Err(not_found) = &mut found {
            unlinked::tell(not_found);
        }
        found
    }

    /// The regular file behind one of the driver's programs, such as
    /// `nvidia-smi` or `nvidia-imex-ctl`.
    pub fn tool(&self, name: &str) -> Result<PathBuf, NotFound> {
        self.find(name, &TOOL_DIRS, |_| Ok(()))
    }

    fn find(
        &self,
        name: &str,
        dirs: &[&str],
        fit: impl Fn(&Path) -> Result<(), Reason>,
    ) -> Result<PathBuf, NotFound> {
        let not_found = |rejected| NotFound {
            name: name.to_owned(),
            root: self.path.clone(),
            rejected,
        };
        if let Some(reason) = self.unusable() {
            let path = self.path.clone();
            return Err(not_found(vec![Rejected { path, reason }]));
        }
        let mut rejected = Vec::new();
        for dir in [""].iter().chain(dirs) {
            let inside = Path::new(dir).join(name);
            let found = resolve::regular_file(&self.path, &inside);
            match found.and_then(|file| fit(&file).map(|()| file)) {
                Ok(file) => return Ok(file),
                Err(reason) => rejected.push(Rejected {
                    path: self.path.join(inside),
                    reason,
                }),
            }
        }
        Err(not_found(rejected))
    }

    fn unusable(&self) -> Option<Reason> {
        match self.path.metadata() {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(_) => Some(Reason::NotADirectory),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some(Reason::Missing),
            Err(e) => Some(Reason::Unreadable(e.kind())),
        }
    }
}

// === impl NotFound ===

impl NotFound {
    /// Whether a candidate would not do for such a reason.
    pub(crate) fn any(&self, is_such: impl Fn(&Reason) -> bool) -> bool {
        self.rejected.iter().any(|it| is_such(&it.reason))
    }
}

/// One line: how many places were tried, and of them only those where
/// something was.
impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            root,
            rejected,
        } = self;
        if let [only] = rejected.as_slice()
            && only.path == *root
        {
            return write!(f, "no {name}: the root {only}");
        }
        let places = rejected.len();
        let root = Shown(root);
        write!(
            f,
            "{name} is in none of the {places} usual places below {root}"
        )?;
        for unfit in rejected.iter().filter(|it| it.reason != Reason::Missing) {
            write!(f, "; {unfit}")?;
        }
        Ok(())
    }
}

// === impl Rejected ===

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Shown(&self.path), self.reason)
    }
}

// === impl Reason ===

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::NotLinked { library } => {
                let library = Shown(library);
                write!(f, "does not exist, but {library} beside it does")
            }
            Self::BrokenLink { missing } => {
                write!(f, "is a broken link: {} does not exist", Shown(missing))
            }
            Self::LinkLoop => f.write_str("is a link in a circle"),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::NotALibrary => f.write_str("is not a shared library"),
            Self::WrongArchitecture { found } => {
                write!(f, "is for another architecture ({found})")
            }
            Self::CutShort { size, needed } => {
                write!(f, "is cut short: {size} of at least {needed} bytes")
            }
            Self::NotADirectory => f.write_str("is not a directory"),
            Self::Unreadable(kind) => write!(f, "cannot be read ({kind})"),
        }
    }
}

#[cfg(test)]
#[path = "root_tests.rs"]
mod tests;
