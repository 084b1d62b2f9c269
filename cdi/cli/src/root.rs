//! A host's files, seen from here or from a container that has them mounted
//! somewhere.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use imex_cdi::{DEFAULT_DIRS, HostNode, HostNodes, OsHost, Registry};

use crate::args::SpecDirs;
use crate::document::DocumentError;

/// As many links as the kernel follows on the way to a file.
const MOST_LINKS: usize = 40;

/// The root directory of a host.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// An error if there is no such directory: nothing below it would be found
    /// either, which is not the same as a host without devices.
    pub(crate) fn new(path: &Path) -> Result<Self, DocumentError> {
        let listed = fs::read_dir(path).map(drop);
        listed.map_err(|source| DocumentError::Root {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Where `path` of the host is. Links on the way are followed within the
    /// root: `/var/run` of many hosts is a link to `/run`, which the kernel
    /// would take for this container's own. The last name may be a link itself.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        if self.is_own() {
            return path.to_owned();
        }
        let mut done: Vec<OsString> = Vec::new();
        let mut todo: VecDeque<OsString> = names(path).collect();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                done.pop();
                continue;
            }
            let here = self.join(done.iter().chain([&name]));
            match fs::read_link(&here) {
                Ok(target) if !todo.is_empty() && links < MOST_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        done.clear();
                    }
                    for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                        todo.push_front(name);
                    }
                }
                _ => done.push(name),
            }
        }
        self.join(&done)
    }

    /// Where the file behind `path` is: the last name's link is followed too.
    pub(crate) fn behind(&self, path: &Path) -> PathBuf {
        // Of a longer path that name is not the last.
        let mut at = self.path(&path.join("any"));
        at.pop();
        at
    }

    /// Where the root itself is.
    pub(crate) fn top(&self) -> &Path {
        &self.0
    }

    /// Whether it is that of this process.
    pub(crate) fn is_own(&self) -> bool {
        self.0 == Path::new("/")
    }

    fn join(&self, names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> PathBuf {
        let mut path = self.0.clone();
        path.extend(names.into_iter().map(|name| PathBuf::from(name.as_ref())));
        path
    }
}

/// The names in `path`, without what leads nowhere.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

impl HostNodes for Root {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        let path = self.path(Path::new(path));
        let parent = path.parent().unwrap_or(&self.0);
        let name = path.file_name().and_then(OsStr::to_str);
        match name {
            Some(name) => OsHost::new(parent).lstat(name),
            // The root itself, or a path that ends in `..`.
            None => Ok(HostNode::NoDevice),
        }
    }
}

/// Whether it is one of the directories that need not be there.
pub(crate) fn is_usual(dir: &Path) -> bool {
    DEFAULT_DIRS.iter().any(|usual| dir == Path::new(usual))
}

// === impl SpecDirs ===

impl SpecDirs {
    pub(crate) fn root(&self) -> Result<Root, DocumentError> {
        Root::new(&self.root)
    }

    /// The directories, below the root.
    pub(crate) fn paths(&self) -> Result<Vec<PathBuf>, DocumentError> {
        let root = self.root()?;
        Ok(self.dirs.iter().map(|dir| root.path(dir)).collect())
    }

    /// An error if a directory that was named is not there: it is misspelt, or
    /// the host is not as it was thought to be. That one of the usual ones is
    /// not there is as good as an empty one.
    pub(crate) fn refuse_absent(&self) -> Result<(), DocumentError> {
        let root = self.root()?;
        let named = self.dirs.iter().filter(|dir| !is_usual(dir));
        for path in named.map(|dir| root.path(dir)) {
            if let Err(source) = path.symlink_metadata()
                && source.kind() == io::ErrorKind::NotFound
            {
                return Err(DocumentError::SpecDir { path, source });
            }
        }
        Ok(())
    }

    pub(crate) fn registry(&self) -> Result<Registry, DocumentError> {
        Ok(Registry::load(&self.paths()?))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

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
        let root = Root::new(dir.path()).unwrap();
        for (path, found) in [
            ("/var/run/cdi", "run/cdi"),
            ("/var/up/cdi/", "run/cdi"),
            ("/var/far/cdi", "run/cdi"),
            ("var/../run/./cdi", "run/cdi"),
            ("/../../run", "run"),
            ("/no/such", "no/such"),
            ("/last", "last"),
        ] {
            assert_eq!(root.path(Path::new(path)), at(found), "{path}");
        }
        // Ends, somewhere.
        assert!(root.path(Path::new("/var/loop/x")).starts_with(dir.path()));
    }

    #[test]
    fn this_host_is_left_to_the_kernel() {
        for path in ["/var/run/cdi", "relative/dir"] {
            let root = Root::new(Path::new("/")).unwrap();
            assert_eq!(root.path(Path::new(path)), Path::new(path));
        }
    }
}
