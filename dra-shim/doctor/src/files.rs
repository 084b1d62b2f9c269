//! A host's files by the names that the host has for them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use imex_cdi::{HostNode, HostNodes};

use crate::bounded_read::{ReadError, read_bounded};
use crate::file_id::FileId;
use crate::root::Root;

/// More than any file has that is read here without another limit.
const MAX_BYTES: usize = 16 << 20;

/// The files below a host's root. Links are followed within the root.
///
/// Paths that are given are the host's own names, absolute; paths that are
/// returned can be opened by this process.
#[derive(Debug)]
pub struct HostFiles {
    root: Root,
}

// === impl HostFiles ===

impl HostFiles {
    /// The files below `root`.
    pub fn new(root: Root) -> Self {
        Self { root }
    }

    /// The root that they are below.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Whether this process runs in that root: only then can it run the host's
    /// programs and load its libraries.
    pub fn is_this_host(&self) -> bool {
        self.root.is_own()
    }

    /// Where `path` of the host is. Links on the way are followed within the
    /// root, the last name is not.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.root.resolve(Path::new(path))
    }

    /// Where the file behind `path` is, with the last link followed too.
    pub(crate) fn resolve_target(&self, path: &str) -> PathBuf {
        self.root.resolve_target(Path::new(path))
    }

    /// The host's name for a path below the root.
    pub fn host_name(&self, path: &Path) -> String {
        match path.strip_prefix(self.root.as_path()) {
            Ok(inside) if !self.is_this_host() => format!("/{}", inside.display()),
            _ => path.display().to_string(),
        }
    }

    /// A library's message, with the host's name for what it calls `path` or
    /// names in the same directory: libraries name the path that they were
    /// given, which is another one where the host's root is mounted somewhere.
    pub(crate) fn with_host_names(&self, message: &str, path: &Path) -> String {
        let mut message = message.to_owned();
        if self.is_this_host() {
            return message;
        }
        let directory = path.parent().unwrap_or(path);
        for seen in [path, directory] {
            let (here, host) = (seen.display().to_string(), self.host_name(seen));
            if !here.is_empty() {
                message = message.replace(&here, host.trim_end_matches('/'));
            }
        }
        message
    }

    /// The text of a regular file; `None` if there is none of that name.
    pub fn read_text(&self, path: &str) -> io::Result<Option<String>> {
        Ok(self
            .read(path)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The content of a regular file; `None` if there is none of that name.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.read_up_to(path, MAX_BYTES)
    }

    // req: DOCTOR-4
    /// As [`read`](Self::read), of a file that may be longer, up to `limit`.
    pub(crate) fn read_up_to(&self, path: &str, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let at = self.resolve_target(path);
        match at.metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(io::Error::other("it is not a regular file")),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        match read_bounded(&at, limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Io(error)) => Err(error),
            Err(ReadError::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Err(ReadError::TooLarge) => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    /// The text of a file, if it can be read.
    pub fn text_if_readable(&self, path: &str) -> Option<String> {
        self.read_text(path).ok().flatten()
    }

    /// Whether there is such a file or directory.
    pub fn exists(&self, path: &str) -> bool {
        self.resolve_target(path).exists()
    }

    // req: DOCTOR-4
    /// As [`exists`](Self::exists); an error if that cannot be examined.
    pub(crate) fn try_exists(&self, path: &str) -> io::Result<bool> {
        match self.resolve_target(path).metadata() {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The first of `paths` that exists.
    pub fn first_existing<'a>(&self, paths: &[&'a str]) -> Option<&'a str> {
        paths.iter().copied().find(|path| self.exists(path))
    }

    /// The names in a directory, sorted; none if it cannot be listed.
    pub fn list(&self, dir: &str) -> Vec<String> {
        self.list_all(dir).unwrap_or_default()
    }

    /// As [`list`](Self::list), but `None` if there is such a directory and it cannot be
    /// listed.
    pub(crate) fn list_all(&self, dir: &str) -> Option<Vec<String>> {
        let entries = match fs::read_dir(self.resolve_target(dir)) {
            Ok(entries) => entries,
            Err(error) => return is_absent(&error).then(Vec::new),
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        Some(names)
    }

    /// The `.conf` files of directories by name. One of an earlier directory takes the place
    /// of those of its name in later ones: systemd.unit(5), modprobe.d(5).
    pub(crate) fn drop_ins(&self, dirs: impl DoubleEndedIterator<Item = String>) -> Vec<String> {
        let mut found = BTreeMap::new();
        for dir in dirs.rev() {
            let names = self.list(&dir).into_iter();
            for name in names.filter(|name| name.strip_suffix(".conf").is_some()) {
                let path = format!("{dir}/{name}");
                found.insert(name, path);
            }
        }
        found.into_values().collect()
    }

    /// Whether `/proc/net` is the host's: the kernel's own is a link to that of whoever
    /// reads it, who may have another network than a host that is mounted somewhere.
    pub(crate) fn has_own_net(&self) -> bool {
        let found = self.resolve("/proc/net").symlink_metadata();
        self.is_this_host() || found.is_ok_and(|found| found.is_dir())
    }

    /// Which file the host has at `path`, behind the last link, too.
    pub(crate) fn target_id(&self, path: &str) -> Option<FileId> {
        let found = self.resolve_target(path).metadata().ok()?;
        Some(FileId::from_metadata(&found))
    }

    /// Which file the host has at `path`.
    pub(crate) fn id(&self, path: &str) -> Option<FileId> {
        FileId::at(&self.root, path)
    }
}

impl HostNodes for HostFiles {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        self.root.lstat(path)
    }
}

/// Whether an error means that there is no such file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_behind_links_is_found_within_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("usr/lib")).unwrap();
        fs::create_dir_all(at("etc")).unwrap();
        fs::write(at("usr/lib/real"), "text").unwrap();
        symlink("/usr/lib/real", at("etc/absolute")).unwrap();
        symlink("../usr/lib/real", at("etc/relative")).unwrap();
        symlink("loop", at("etc/loop")).unwrap();
        let files = HostFiles::new(Root::new(dir.path()).unwrap());
        for path in ["/etc/absolute", "/etc/relative", "/usr/lib/real"] {
            assert_eq!(
                files.read_text(path).unwrap().as_deref(),
                Some("text"),
                "{path}"
            );
        }
        assert_eq!(files.read_text("/etc/none").unwrap(), None);
        assert_eq!(files.read_text("/usr/lib/real/below").unwrap(), None);
        assert!(files.read_text("/etc/loop").is_err());
        assert!(files.read_text("/etc").is_err());
        assert_eq!(files.host_name(&at("etc/none")), "/etc/none");
    }
}
