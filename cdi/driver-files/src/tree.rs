//! Reading a driver root. Paths are texts that begin with `/`, inside the root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nvml_session::{DriverRoot, RejectReason};

/// Read access to a driver root.
pub(crate) struct Tree<'a>(pub(crate) &'a DriverRoot);

/// Characters of a path that need no quoting in a hook's arguments (`TARGET::LINK`), in a list of directories and
/// in `ld.so.conf`.
pub(crate) fn is_plain(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-/@=~".contains(&byte);
    path.bytes().all(is_plain)
}

/// Whether a text can be the name of a library or of a link in such places. A hook's program could take one that begins
/// with `-` for an option.
pub(crate) fn is_plain_name(name: &str) -> bool {
    is_plain(name) && !name.contains('/') && !name.starts_with(['-', '.']) && !name.is_empty()
}

/// Splits a path into its directory and its last component.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

// === impl Tree ===

impl Tree<'_> {
    /// Follows all links of `path`.
    // req: GPU-8
    pub(crate) fn resolve(&self, path: &str) -> Result<String, RejectReason> {
        let inside = self.0.resolve(path)?;
        let text = inside.to_str();
        let invalid = RejectReason::Unreadable(io::ErrorKind::InvalidFilename);
        text.map(|text| format!("/{text}")).ok_or(invalid)
    }

    /// Follows all links of `path` to a regular file.
    pub(crate) fn file(&self, path: &str) -> Result<String, RejectReason> {
        let path = self.resolve(path)?;
        match self.on_host(&path).symlink_metadata() {
            Ok(metadata) if metadata.is_file() => Ok(path),
            Ok(_) => Err(RejectReason::NotAFile),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(RejectReason::Missing),
            Err(e) => Err(RejectReason::Unreadable(e.kind())),
        }
    }

    /// The sorted names in a directory without links in its path; none if the directory cannot be read. Bytes that
    /// are not UTF-8 are replaced.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.on_host(dir)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
        let mut names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Whether a path without links in its directory is a link.
    pub(crate) fn is_link(&self, path: &str) -> bool {
        self.on_host(path).is_symlink()
    }

    /// The path outside the root. Links below the root must have been resolved.
    pub(crate) fn on_host(&self, path: &str) -> PathBuf {
        self.0.path().join(Path::new(path.trim_start_matches('/')))
    }
}
