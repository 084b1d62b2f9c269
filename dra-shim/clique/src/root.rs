//! Where a host's NVIDIA driver is installed, seen from this process.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::resolve;

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
    /// It is there and is a link, and what it leads to does not exist.
    BrokenLink {
        /// The missing path, as seen from inside the root.
        missing: PathBuf,
    },
    /// Its links lead in a circle.
    LinkLoop,
    /// It is a directory, a device or the like.
    NotAFile,
    /// It is not a directory (only of the root itself).
    NotADirectory,
    /// The file system refused to say.
    Unreadable(io::ErrorKind),
}

const LIBRARY: &str = "libnvidia-ml.so.1";

/// Below the root itself, which is searched first (`plugin` of NVIDIA: the same order).
const LIBRARY_DIRS: [&str; 6] = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
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
    /// the root.
    pub fn library(&self) -> Result<PathBuf, NotFound> {
        self.find(LIBRARY, &LIBRARY_DIRS)
    }

    /// The regular file behind one of the driver's programs, such as
    /// `nvidia-smi` or `nvidia-imex-ctl`.
    pub fn tool(&self, name: &str) -> Result<PathBuf, NotFound> {
        self.find(name, &TOOL_DIRS)
    }

    fn find(&self, name: &str, dirs: &[&str]) -> Result<PathBuf, NotFound> {
        let mut rejected = Vec::new();
        if let Some(reason) = self.unusable() {
            rejected.push(Rejected {
                path: self.path.clone(),
                reason,
            });
        } else {
            for dir in [""].iter().chain(dirs) {
                let inside = Path::new(dir).join(name);
                match resolve::regular_file(&self.path, &inside) {
                    Ok(found) => return Ok(found),
                    Err(reason) => rejected.push(Rejected {
                        path: self.path.join(inside),
                        reason,
                    }),
                }
            }
        }
        Err(NotFound {
            name: name.to_owned(),
            root: self.path.clone(),
            rejected,
        })
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
    /// Whether the name is there and only what it leads to is not, as while an
    /// installation is under way and after one that broke off.
    pub(crate) fn has_broken_link(&self) -> bool {
        self.rejected
            .iter()
            .any(|it| matches!(it.reason, Reason::BrokenLink { .. }))
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
        let root = root.display();
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
        write!(f, "{} {}", self.path.display(), self.reason)
    }
}

// === impl Reason ===

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::BrokenLink { missing } => {
                write!(f, "is a broken link: {} does not exist", missing.display())
            }
            Self::LinkLoop => f.write_str("is a link in a circle"),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::NotADirectory => f.write_str("is not a directory"),
            Self::Unreadable(kind) => write!(f, "cannot be read ({kind})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(root: &Path, file: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_root_itself_comes_first_and_then_the_usual_directories_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let root = DriverRoot::new(dir.path());
        for place in LIBRARY_DIRS.iter().rev().chain(&[""]) {
            let file = Path::new(place).join(LIBRARY);
            put(dir.path(), file.to_str().unwrap());
            assert_eq!(root.library(), Ok(dir.path().join(file)));
        }
    }

    #[test]
    fn a_stray_directory_does_not_shadow_the_library() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64").join(LIBRARY)).unwrap();
        put(dir.path(), "lib64/libnvidia-ml.so.1");
        assert_eq!(
            DriverRoot::new(dir.path()).library(),
            Ok(dir.path().join("lib64/libnvidia-ml.so.1"))
        );
    }

    #[test]
    fn the_error_lists_every_place_with_its_reason_and_shows_the_telling_ones() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64").join(LIBRARY)).unwrap();
        let error = DriverRoot::new(dir.path()).library().unwrap_err();
        let reasons: Vec<_> = error.rejected.iter().map(|it| &it.reason).collect();
        assert_eq!(reasons.len(), 1 + LIBRARY_DIRS.len());
        assert_eq!(reasons[1], &Reason::NotAFile);
        assert_eq!(
            reasons.iter().filter(|it| ***it == Reason::Missing).count(),
            6
        );
        assert_eq!(
            error.to_string(),
            format!(
                "libnvidia-ml.so.1 is in none of the 7 usual places below {root}; \
                 {root}/usr/lib64/libnvidia-ml.so.1 is not a regular file",
                root = dir.path().display()
            )
        );
    }

    #[test]
    fn a_root_that_does_not_exist_is_named_as_the_reason() {
        let error = DriverRoot::new("/nonexistent/driver")
            .tool("nvidia-imex-ctl")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "no nvidia-imex-ctl: the root /nonexistent/driver does not exist"
        );
    }

    #[test]
    fn a_usr_merged_host_without_driver_gets_one_short_sentence() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib/x86_64-linux-gnu")).unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
        for merged in ["lib", "lib64"] {
            symlink(Path::new("usr").join(merged), dir.path().join(merged)).unwrap();
        }
        let error = DriverRoot::new(dir.path()).library().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "libnvidia-ml.so.1 is in none of the 7 usual places below {}",
                dir.path().display()
            )
        );
    }
}
