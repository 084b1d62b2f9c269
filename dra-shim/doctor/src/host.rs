//! Access to a host's files by the host's own paths, from the host itself or from a container
//! that has the host's root mounted somewhere.

use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use dra_common::{ReadError, read_bounded};
use imex_cdi::{HostNode, HostNodes, OsHost, PROC_DEVICES};

use crate::majors::Majors;

/// The limit of files in bytes, unless a caller has another one: more than any of them has.
const MAX_BYTES: u64 = 16 << 20;

/// The number of links that the kernel follows on the way to a file.
const MAX_LINKS: usize = 40;

/// The kernel refuses paths of this length in bytes, or longer ones.
const MAX_PATH_LEN: usize = 4096;

/// The host that is examined: this one, or one whose root is mounted here.
///
/// For the root `/`, the kernel resolves paths. For another root, links are resolved here, so
/// that `/var/run`, a link to `/run` on many hosts, leads to the host's directory and not to
/// this container's. It is no sandbox: a host that changes a link meanwhile can lead a path
/// elsewhere.
///
/// Arguments are absolute paths of the host; returned paths can be opened by this process.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    /// Read once, when it is first needed.
    majors: OnceCell<Option<Majors>>,
}

/// The host's root directory cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list the root directory {}", path.display())]
pub struct RootError {
    /// The directory.
    pub path: PathBuf,
    /// Why it cannot be listed.
    pub source: io::Error,
}

/// Identifies a file independently of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The number of its device, from `stat`.
    pub device: u64,
    /// Its inode on that device.
    pub inode: u64,
}

// === impl Host ===

impl Host {
    /// The host with its root directory at `root`.
    ///
    /// Fails if the directory cannot be listed: otherwise it would look like a host without
    /// devices.
    pub fn open(root: &Path) -> Result<Self, RootError> {
        let listed = fs::read_dir(root).map(drop);
        listed.map_err(|source| RootError {
            path: root.to_owned(),
            source,
        })?;
        Ok(Self {
            root: root.to_owned(),
            majors: OnceCell::new(),
        })
    }

    /// Its root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this process runs on this host with the same root. Only then does the kernel
    /// follow links as the host does, and only then can this process run the host's programs
    /// and load its libraries.
    pub fn is_this_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The majors of its drivers; `None` if `/proc/devices` cannot be read.
    pub fn majors(&self) -> Option<&Majors> {
        let read = || Majors::read(&self.resolve(PROC_DEVICES));
        self.majors.get_or_init(read).as_ref()
    }

    /// The path at which this process finds `path` of the host. Links on the way are followed
    /// within the root: the kernel would follow a host's `/var/run`, often a link to `/run`,
    /// to this container's `/run`. The last name may be a link itself.
    // req: DOCTOR-5
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if self.is_this_host() {
            return path.to_owned();
        }
        let mut at = self.root.clone();
        let mut depth = 0_usize;
        let mut todo: VecDeque<OsString> = names(path).collect();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                at.pop();
                depth = depth.saturating_sub(1);
            } else {
                at.push(&name);
                depth += 1;
                if let Some(target) = link_target(&at)
                    && !todo.is_empty()
                    && links < MAX_LINKS
                {
                    links += 1;
                    at.pop();
                    depth = if target.is_absolute() { 0 } else { depth - 1 };
                    for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                        todo.push_front(name);
                    }
                }
            }
            // Also for `..` of the root, which is the root.
            if depth == 0 {
                at.clone_from(&self.root);
            }
        }
        at
    }

    /// As [`resolve`](Self::resolve), but the last name's link is followed, too.
    pub fn resolve_target(&self, path: impl AsRef<Path>) -> PathBuf {
        // With another name behind it, that name is not the last.
        let mut at = self.resolve(path.as_ref().join("any"));
        at.pop();
        at
    }

    /// The host's name for a path below the root.
    pub fn host_name(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(inside) if !self.is_this_host() => format!("/{}", inside.display()),
            _ => path.display().to_string(),
        }
    }

    /// A library's message, with the host's names for `path` and for other paths in its
    /// directory. Libraries name the path that they were given, which differs from the host's
    /// if the host's root is mounted somewhere.
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

    /// The text of a regular file; `None` if it does not exist.
    pub(crate) fn read_text(&self, path: &str) -> io::Result<Option<String>> {
        Ok(self
            .read(path)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The content of a regular file; `None` if it does not exist.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.read_up_to(path, MAX_BYTES)
    }

    // req: DOCTOR-4
    /// As [`read`](Self::read), with another limit in bytes.
    pub(crate) fn read_up_to(&self, path: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        match read_bounded(&self.resolve_target(path), limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Io(error)) if is_absent(&error) => Ok(None),
            Err(ReadError::Io(error)) => Err(error),
            Err(ReadError::NotAFile(_)) => Err(io::Error::other("the path is not a regular file")),
            Err(ReadError::TooLong(_)) => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    /// The text of a file, if it can be read.
    pub(crate) fn text_if_readable(&self, path: &str) -> Option<String> {
        self.read_text(path).ok().flatten()
    }

    /// Whether the file or directory exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.resolve_target(path).exists()
    }

    // req: DOCTOR-4
    /// As [`exists`](Self::exists), but fails if that cannot be examined.
    pub(crate) fn try_exists(&self, path: &str) -> io::Result<bool> {
        match self.resolve_target(path).metadata() {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The first of `paths` that exists.
    pub(crate) fn first_existing<'a>(&self, paths: &[&'a str]) -> Option<&'a str> {
        paths.iter().copied().find(|path| self.exists(path))
    }

    /// The names in a directory, sorted; empty if it cannot be listed.
    pub(crate) fn list(&self, dir: &str) -> Vec<String> {
        self.list_all(dir).unwrap_or_default()
    }

    /// As [`list`](Self::list), but `None` if the directory exists and cannot be listed.
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

    /// The `.conf` files of directories by name. A file of an earlier directory replaces files
    /// of the same name in later ones: systemd.unit(5), modprobe.d(5).
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

    /// Whether `/proc/net` is the host's. In the kernel's `/proc` it is a link to the reading
    /// process's network, which may differ from that of a host mounted somewhere.
    pub(crate) fn has_own_net(&self) -> bool {
        let found = self.resolve("/proc/net").symlink_metadata();
        self.is_this_host() || found.is_ok_and(|found| found.is_dir())
    }

    /// The id of the host's file at `path`, following the last link.
    pub(crate) fn target_id(&self, path: &str) -> Option<FileId> {
        let found = self.resolve_target(path).metadata().ok()?;
        Some(FileId::new(&found))
    }

    /// The id of the host's file at `path`; for a link, that of the link itself.
    pub(crate) fn id(&self, path: &str) -> Option<FileId> {
        let found = self.resolve(path).symlink_metadata().ok()?;
        Some(FileId::new(&found))
    }

    /// The kind of file at a path instead of a device node; `None` if nothing exists there, or
    /// it cannot be examined.
    pub(crate) fn file_kind(&self, path: &str) -> Option<&'static str> {
        let found = fs::symlink_metadata(self.resolve(path)).ok()?;
        let kind = found.file_type();
        Some(match () {
            () if kind.is_symlink() => "a symbolic link",
            () if kind.is_dir() => "a directory",
            () if kind.is_file() => "a regular file",
            () if kind.is_socket() => "a socket",
            () => return None,
        })
    }
}

impl HostNodes for Host {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        let path = self.resolve(path);
        let parent = path.parent().unwrap_or(&self.root);
        let name = path.file_name().and_then(OsStr::to_str);
        match name {
            Some(name) => OsHost::new(parent).lstat(name),
            // The root itself, or a path that ends in `..`.
            None => Ok(HostNode::NotADevice),
        }
    }
}

/// The target of a link. A path that is too long for the kernel cannot be a link, so it is not
/// examined.
fn link_target(path: &Path) -> Option<PathBuf> {
    if path.as_os_str().len() >= MAX_PATH_LEN {
        return None;
    }
    fs::read_link(path).ok()
}

/// The names in `path`, without `/` and `.`.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Whether an error means that there is no such file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

// === impl FileId ===

impl FileId {
    pub(crate) fn new(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

impl std::fmt::Display for FileId {
    /// Shows the device as in `/proc/PID/mountinfo`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, inode } = self;
        let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
        let minor = (device & 0xff) | (device >> 12 & !0xff);
        write!(f, "inode {inode} of device {major}:{minor}")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

    // req: DOCTOR-5
    #[test]
    fn links_on_the_way_are_followed_within_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("run/cdi")).unwrap();
        fs::create_dir_all(at("var")).unwrap();
        symlink("/run", at("var/run")).unwrap();
        symlink("../run", at("var/up")).unwrap();
        symlink("../../../../../run", at("var/far")).unwrap();
        symlink("loop", at("var/loop")).unwrap();
        symlink("/run", at("last")).unwrap();
        let root = Host::open(dir.path()).unwrap();
        for (path, found) in [
            ("/var/run/cdi", "run/cdi"),
            ("/var/up/cdi/", "run/cdi"),
            ("/var/far/cdi", "run/cdi"),
            ("var/../run/./cdi", "run/cdi"),
            ("/../../run", "run"),
            ("/no/such", "no/such"),
            ("/last", "last"),
        ] {
            assert_eq!(root.resolve(path), at(found), "{path}");
        }
        // A loop of links ends, somewhere.
        assert!(root.resolve("/var/loop/x").starts_with(dir.path()));
    }

    #[test]
    fn a_path_of_any_length_is_found_in_time() {
        // A process's command line or a configuration may name such a path.
        let long = "/name".repeat(100_000);
        let dir = tempfile::tempdir().unwrap();
        let root = Host::open(dir.path()).unwrap();
        let began = Instant::now();
        let found = root.resolve(&long);
        assert_eq!(found, dir.path().join(long.trim_start_matches('/')));
        // Only a time limit: a search for links in all names would take minutes.
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn this_host_is_left_to_the_kernel() {
        for path in ["/var/run/cdi", "relative/dir"] {
            let root = Host::open(Path::new("/")).unwrap();
            assert_eq!(root.resolve(path), Path::new(path));
        }
    }

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
        let files = Host::open(dir.path()).unwrap();
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
