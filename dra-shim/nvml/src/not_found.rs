//! The error of a driver file that was not found, with the reason for each rejected path.

use std::fmt;
use std::io;
use std::path::PathBuf;

use dra_common::OneLine;

/// Error of a file that was not found below the root, with every searched path.
///
/// Displays as one line: the roots, the number of searched paths, and the reason for each
/// existing path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DriverFileNotFound {
    /// The name of the file.
    pub name: String,
    /// The searched root.
    pub root: PathBuf,
    /// The roots within `root`, relative to it, that were searched too if they exist.
    pub nested: &'static [&'static str],
    /// The rejected paths in search order; only the root itself if that is not a directory.
    pub rejected: Vec<RejectedPath>,
}

/// One rejected path, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedPath {
    /// The path, including the root.
    pub path: PathBuf,
    /// The reason.
    pub reason: RejectReason,
}

/// The reason for rejecting a path.
///
/// Displays as the end of a sentence that begins with the path.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectReason {
    /// The file or its directory does not exist.
    Missing,
    /// The file does not exist, but the versioned library that it should link to is in the same
    /// directory (libraries only).
    NotLinked {
        /// The versioned library's name.
        library: String,
    },
    /// The file is a symbolic link to a missing target.
    BrokenLink {
        /// The missing path inside the root.
        missing: PathBuf,
    },
    /// The symbolic links form a loop.
    LinkLoop,
    /// The path is not a regular file, for example a directory or a device.
    NotAFile,
    /// The file is not an ELF shared library (libraries only, like the next two).
    NotALibrary,
    /// The library is for another architecture than this process.
    WrongArchitecture {
        /// The library's architecture.
        found: String,
    },
    /// The library is truncated, for example because it is still being copied.
    Truncated {
        /// The size in bytes.
        size: u64,
        /// The minimum size in bytes according to the headers.
        needed: u64,
    },
    /// The path is not a directory (the root only).
    NotADirectory,
    /// The file system returned an error.
    Unreadable(io::ErrorKind),
}

// === impl DriverFileNotFound ===

impl DriverFileNotFound {
    /// Whether at least one path was rejected for a reason that `matches`.
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
            "{name} was not found in the {places} usual places below {root}"
        )?;
        if !nested.is_empty() {
            write!(f, " or its subdirectories {}", nested.join(" and "))?;
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
