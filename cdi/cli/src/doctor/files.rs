//! A host's files by the names that the host has for them.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use imex_cdi::{HostNode, HostNodes};

use crate::reading::{self, ReadError};
use crate::root::Root;

/// More than any file that is read here has.
const MOST_BYTES: usize = 16 << 20;

/// Where every service of a host has its sockets: each host's own.
const RUN: &str = "/run";

/// The files below a root.
#[derive(Debug)]
pub(crate) struct Files {
    root: Root,
}

/// A process of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Its program's name, at most 15 bytes.
    pub(crate) name: String,
    /// Its user.
    pub(crate) uid: u32,
}

/// Whose files a process sees.
#[derive(Debug)]
pub(crate) enum View {
    /// This host's, below this root of its own: mounts may differ.
    Hosts(Root),
    /// A container's, or those of another host that shares the process ids.
    Others,
    /// It may not be looked at.
    Closed,
}

/// Which file stands at a path, through whatever mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

// === impl Files ===

impl Files {
    pub(crate) fn new(root: Root) -> Self {
        Self { root }
    }

    pub(crate) fn root_path(&self) -> &Path {
        self.root.top()
    }

    /// Whether this process runs in that root: only then do its programs and
    /// libraries run here.
    pub(crate) fn is_this_host(&self) -> bool {
        self.root.is_own()
    }

    /// Where `path` of the host is. Links on the way are followed within the
    /// root, the last name is not.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.path(Path::new(path))
    }

    /// Where the file behind `path` is, with the last link followed too.
    pub(crate) fn behind(&self, path: &str) -> PathBuf {
        self.root.behind(Path::new(path))
    }

    /// What the host calls a path below the root.
    pub(crate) fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(self.root_path()) {
            Ok(inside) if !self.is_this_host() => format!("/{}", inside.display()),
            _ => path.display().to_string(),
        }
    }

    /// The text of a regular file; `None` if there is none of that name.
    pub(crate) fn text(&self, path: &str) -> io::Result<Option<String>> {
        Ok(self
            .bytes(path)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(crate) fn bytes(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let at = self.behind(path);
        match at.metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(io::Error::other("it is not a regular file")),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        match reading::read(&at, MOST_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Io(error)) => Err(error),
            Err(ReadError::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Err(ReadError::TooLarge) => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    /// The text of a file that tells nothing if it cannot be read.
    pub(crate) fn text_if_any(&self, path: &str) -> Option<String> {
        self.text(path).ok().flatten()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.behind(path).exists()
    }

    /// The first of `paths` that exists.
    pub(crate) fn first<'a>(&self, paths: &[&'a str]) -> Option<&'a str> {
        paths.iter().copied().find(|path| self.exists(path))
    }

    /// The names in a directory, sorted; none if it cannot be listed.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.behind(dir)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether a directory that has no names has none.
    pub(crate) fn may_list(&self, dir: &str) -> bool {
        let listed = fs::read_dir(self.behind(dir));
        listed.map_or_else(|error| is_absent(&error), |_| true)
    }

    /// The processes that `/proc` shows now. Not kept for the next area: programs
    /// that are run in between take seconds, in which a daemon may start anew.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let names = self.names("/proc");
        let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
        pids.filter_map(|pid| self.process(pid)).collect()
    }

    /// A process is this host's if it has the root directory and the `/run` that
    /// this host has: with them go the sockets through which it is reached. What
    /// mount namespace it is in tells nothing: that of a debug pod is another
    /// than the host's, and one with a mount of its own is what is looked for.
    pub(crate) fn view_of(&self, pid: u32) -> View {
        let link = self.at(&format!("/proc/{pid}/root"));
        let top = match link.join(".").metadata() {
            Ok(found) => FileId::of(&found),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return View::Closed,
            Err(_) => return View::Others,
        };
        let Ok(root) = Root::new(&link) else {
            return View::Others;
        };
        let own = self.root_path().metadata().ok();
        let same_top = own.is_some_and(|found| FileId::of(&found) == top);
        if same_top && FileId::at(&root, RUN) == FileId::at(&self.root, RUN) {
            View::Hosts(root)
        } else {
            View::Others
        }
    }

    /// Which file the host has at `path`.
    pub(crate) fn id(&self, path: &str) -> Option<FileId> {
        FileId::at(&self.root, path)
    }

    /// Whether the host's file at `path` is the one behind `link`.
    pub(crate) fn is_same(&self, path: &str, link: &Path) -> bool {
        let id = |path: &Path| Some(FileId::of(&path.metadata().ok()?));
        let found = id(link);
        found.is_some() && found == id(&self.behind(path))
    }

    fn process(&self, pid: u32) -> Option<Process> {
        let dir = self.at(&format!("/proc/{pid}"));
        let uid = dir.metadata().ok()?.uid();
        let name = self.text_if_any(&format!("/proc/{pid}/comm"))?;
        Some(Process {
            pid,
            name: name.trim_end().to_owned(),
            uid,
        })
    }
}

impl HostNodes for Files {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        self.root.lstat(path)
    }
}

// === impl Process ===

impl Process {
    pub(crate) fn shown(&self) -> String {
        format!("{} (process {})", self.name, self.pid)
    }
}

// === impl FileId ===

impl FileId {
    /// Of a link at `path`, itself.
    pub(crate) fn at(root: &Root, path: &str) -> Option<Self> {
        let found = root.path(Path::new(path)).symlink_metadata().ok()?;
        Some(Self::of(&found))
    }

    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }

    pub(crate) fn inode(self) -> u64 {
        self.inode
    }
}

impl fmt::Display for FileId {
    /// The device as `/proc/PID/mountinfo` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode } = self;
        let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
        let minor = (device & 0xff) | (device >> 12 & !0xff);
        write!(f, "inode {inode} of device {major}:{minor}")
    }
}

/// Whether an error says that there is no such file.
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
        let files = Files::new(Root::new(dir.path()).unwrap());
        for path in ["/etc/absolute", "/etc/relative", "/usr/lib/real"] {
            assert_eq!(files.text(path).unwrap().as_deref(), Some("text"), "{path}");
        }
        assert_eq!(files.text("/etc/none").unwrap(), None);
        assert_eq!(files.text("/usr/lib/real/below").unwrap(), None);
        assert!(files.text("/etc/loop").is_err());
        assert!(files.text("/etc").is_err());
        assert_eq!(files.shown(&at("etc/none")), "/etc/none");
    }
}
