//! A driver file that was not found: every path that was tried, and why each was rejected.

use std::fmt;
use std::io;
use std::path::PathBuf;

use dra_common::OneLine;

/// A file that was found nowhere below the root, with every path that was tried.
///
/// Displays as one line: how many places were tried below which roots, and the
/// reason for those where there was something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DriverFileNotFound {
    /// What was searched for.
    pub name: String,
    /// The root it was searched under.
    pub root: PathBuf,
    /// Roots of their own within it that were searched too where they exist,
    /// relative to it.
    pub nested: &'static [&'static str],
    /// Each path in search order. One entry, the root itself, if the root is
    /// not a directory.
    pub rejected: Vec<RejectedPath>,
}

/// One path that was tried, and why it was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedPath {
    /// The path, including the root.
    pub path: PathBuf,
    /// Why it was rejected.
    pub reason: RejectReason,
}

/// Why a path was rejected.
///
/// Displays as the end of a sentence that begins with the path.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectReason {
    /// There is no such file, or no such directory.
    Missing,
    /// There is no such file, but the versioned library that it should link to
    /// is in the same directory (libraries only).
    NotLinked {
        /// The versioned library's name.
        library: String,
    },
    /// It is a symbolic link whose target does not exist.
    BrokenLink {
        /// The missing path, as seen from inside the root.
        missing: PathBuf,
    },
    /// Its symbolic links form a loop.
    LinkLoop,
    /// It is a directory, a device or the like.
    NotAFile,
    /// It is a file, but not an ELF shared library (libraries only, as the
    /// next two).
    NotALibrary,
    /// It is a library that this process cannot load.
    WrongArchitecture {
        /// The architecture that it was built for.
        found: String,
    },
    /// It is a library without its end, for example because it is still being
    /// copied.
    Truncated {
        /// Its size in bytes.
        size: u64,
        /// The smallest size in bytes that agrees with its headers.
        needed: u64,
    },
    /// It is not a directory (the root only).
    NotADirectory,
    /// The file system returned an error.
    Unreadable(io::ErrorKind),
}

// === impl DriverFileNotFound ===

impl DriverFileNotFound {
    /// True if at least one path was rejected for a reason that `matches`.
    pub(crate) fn has_reason(&self, matches: impl Fn(&RejectReason) -> bool) -> bool {
        self.rejected.iter().any(|path| matches(&path.reason))
    }
}

impl fmt::Display for DriverFileNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            root,
            nested,
            rejected,
        } = self;
        if let [only] = rejected.as_slice()
            && only.path == *root
        {
            return write!(f, "no {name}: the root {only}");
        }
        let places = rejected.len();
        let root = OneLine(root.display());
        write!(
            f,
            "{name} is in none of the {places} usual places below {root}"
        )?;
        if !nested.is_empty() {
            write!(f, " and, within it, {}", nested.join(" and "))?;
        }
        for path in rejected
            .iter()
            .filter(|path| path.reason != RejectReason::Missing)
        {
            write!(f, "; {path}")?;
        }
        Ok(())
    }
}

// === impl RejectedPath ===

impl fmt::Display for RejectedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", OneLine(self.path.display()), self.reason)
    }
}

// === impl RejectReason ===

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::NotLinked { library } => {
                let library = OneLine(library);
                write!(f, "does not exist, but {library} is in the same directory")
            }
            Self::BrokenLink { missing } => {
                write!(
                    f,
                    "is a broken link: {} does not exist",
                    OneLine(missing.display())
                )
            }
            Self::LinkLoop => f.write_str("is a symbolic link loop"),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::NotALibrary => f.write_str("is not a shared library"),
            Self::WrongArchitecture { found } => {
                write!(f, "is for another architecture ({found})")
            }
            Self::Truncated { size, needed } => {
                write!(f, "is truncated: {size} of at least {needed} bytes")
            }
            Self::NotADirectory => f.write_str("is not a directory"),
            Self::Unreadable(kind) => write!(f, "cannot be read ({kind})"),
        }
    }
}
