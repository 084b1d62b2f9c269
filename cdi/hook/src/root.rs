//! Files inside a container's root file system. No path leaves the root, whatever links the image has.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use crate::walk;

const DIRECTORY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY);
/// A named pipe in place of the file must not block the hook.
const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY);
const CREATE: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// A container's root directory. Paths of its methods are the container's, absolute or relative to the root; their
/// `..` is removed before links are followed.
pub(crate) struct Root {
    dir: OwnedFd,
    path: PathBuf,
    resolver: fn(BorrowedFd<'_>, &Path, OFlag) -> nix::Result<OwnedFd>,
}

/// A file in a directory, not followed if it is a link.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) stat: FileStat,
}

// === impl Root ===

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::with_resolver(path, resolve)
    }

    pub(crate) fn with_resolver(
        path: &Path,
        resolver: fn(BorrowedFd<'_>, &Path, OFlag) -> nix::Result<OwnedFd>,
    ) -> io::Result<Self> {
        let flags = DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            dir: nix::fcntl::open(path, flags, Mode::empty())?,
            path: path.to_owned(),
            resolver,
        })
    }

    /// The root's path on the host.
    pub(crate) fn host_path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory as a place for other calls.
    pub(crate) fn dir(&self, path: &Path) -> io::Result<OwnedFd> {
        self.find(path, DIRECTORY)
    }

    /// Opens a regular file to read.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        let file = File::from(self.find(path, READ)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    }

    /// Reads a regular file of at most `limit` bytes. `None` if there is none.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.file(path) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::other(format!("it is longer than {limit} bytes")));
        }
        Ok(Some(bytes))
    }

    /// Whether there is a regular file.
    pub(crate) fn has_file(&self, path: &Path) -> io::Result<bool> {
        match self.file(path) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) || error.kind() == io::ErrorKind::Other => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists a directory in the order of names; names that are not UTF-8 are left out. `None` if there is none.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Option<Vec<Entry>>> {
        let opened = match self.find(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
            Ok(opened) => opened,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        let mut dir = Dir::from_fd(opened)?;
        for entry in dir.iter() {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        let entry = |name: String| {
            let stat = fstatat(dir.as_fd(), name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            Ok(Entry { name, stat })
        };
        names
            .into_iter()
            .map(entry)
            .collect::<io::Result<_>>()
            .map(Some)
    }

    /// Opens a directory, and creates it and its parents where they are missing.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<OwnedFd> {
        let missing = match self.dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            found => return found,
        };
        let path = inside(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(missing);
        };
        let mode = Mode::from_bits_truncate(0o755);
        match mkdirat(self.make_dir(parent)?, name, mode) {
            // A link that leads nowhere: opening it fails.
            Ok(()) | Err(Errno::EEXIST) => self.dir(&path),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file unless the path exists, even as a link.
    pub(crate) fn create_file(&self, path: &Path, text: &str) -> io::Result<()> {
        let (parent, name) = self.make_parent(path)?;
        match create(&parent, &name, text, 0o644) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Creates a file in place of what is there. A link is replaced, not followed.
    pub(crate) fn replace_file(&self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        let (parent, name) = self.make_parent(path)?;
        match create(&parent, &name, text, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result,
        }
        unlinkat(&parent, name.as_path(), UnlinkatFlags::NoRemoveDir)?;
        create(&parent, &name, text, mode)
    }

    /// Removes a file or link if it exists.
    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = inside(path);
        let parent = path.parent().unwrap_or(&path);
        let (Ok(parent), Some(name)) = (self.dir(parent), path.file_name()) else {
            return Ok(());
        };
        match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a link to `target` in place of another file or link. A link to `target` is kept.
    pub(crate) fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        let (parent, name) = self.make_parent(path)?;
        match symlinkat(target, &parent, name.as_path()) {
            Err(Errno::EEXIST) => {}
            result => return Ok(result?),
        }
        if readlinkat(&parent, name.as_path()).is_ok_and(|found| found == target.as_os_str()) {
            return Ok(());
        }
        // Left by a hook that was killed.
        let temporary = format!("{}.nvidia-cdi-hook", name.display());
        match unlinkat(&parent, temporary.as_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(target, &parent, temporary.as_str())?;
        let renamed = renameat(&parent, temporary.as_str(), &parent, name.as_path());
        if renamed.is_err() {
            // The reason why it could not be renamed is reported.
            let _ = unlinkat(&parent, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        Ok(renamed?)
    }

    /// The container's path of an open file or directory, without links.
    pub(crate) fn path_of(&self, file: impl AsFd) -> io::Result<PathBuf> {
        let root = fs::read_link(fd_path(&self.dir))?;
        let path = fs::read_link(fd_path(&file))?;
        let inside = path.strip_prefix(&root).map_err(io::Error::other)?;
        Ok(Path::new("/").join(inside))
    }

    fn find(&self, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
        let path = inside(path);
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &path
        };
        Ok((self.resolver)(self.dir.as_fd(), path, flags)?)
    }

    /// Opens the directory of a file that is to be created, and returns it with the file's name.
    fn make_parent(&self, path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let path = inside(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it is the root directory"));
        };
        Ok((self.make_dir(parent)?, PathBuf::from(name)))
    }
}

/// The path under which this process can name an open file, for calls that take paths.
pub(crate) fn fd_path(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Whether a path does not exist: a component is missing, no directory, or a link in a circle.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    let missing = [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP];
    missing
        .map(|it| Some(it as i32))
        .contains(&error.raw_os_error())
}

/// Opens by `openat2`. Without it, and when files are renamed at the same time (`EAGAIN`), walks.
// req: GPU-9
fn resolve(root: BorrowedFd<'_>, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(root, path, how) {
        Err(Errno::ENOSYS | Errno::EPERM | Errno::EAGAIN) => walk::open(root, path, flags),
        found => found,
    }
}

fn create(parent: &OwnedFd, name: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mode = Mode::from_bits_truncate(mode);
    let mut file = File::from(openat(parent, name, CREATE, mode)?);
    file.write_all(text.as_bytes())
}

/// The path relative to the root, without `..`.
fn inside(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    clean
}

#[cfg(test)]
#[path = "root_tests.rs"]
mod tests;
