//! Paths of a host, from the host itself or from a container that has the
//! host's root mounted somewhere.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use imex_cdi::{HostNode, HostNodes, OsHost};

/// As many links as the kernel follows on the way to a file.
const MOST_LINKS: usize = 40;

/// From this length on, in bytes, the kernel refuses a path.
const LONGEST_PATH: usize = 4096;

/// The root directory of a host: `/`, or where a container has the host's
/// mounted.
///
/// On `/` paths are left to the kernel. Below another root links are followed
/// here, so that `/var/run`, which is a link to `/run` on many hosts, leads to
/// the host's directory and not to this container's. It is no sandbox: a host
/// that changes a link meanwhile can lead a path elsewhere.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

/// There is no directory that could be a host's root.
#[derive(Debug, thiserror::Error)]
#[error("cannot look into the root {}", path.display())]
pub struct RootError {
    /// What was given.
    pub path: PathBuf,
    /// Why it cannot be listed.
    pub source: io::Error,
}

// === impl Root ===

impl Root {
    /// An error if the directory cannot be listed: nothing below it would be
    /// found either, which is not the same as a host without devices.
    pub fn new(path: &Path) -> Result<Self, RootError> {
        let listed = fs::read_dir(path).map(drop);
        listed.map_err(|source| RootError {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Where `path` of the host is. Links on the way are followed within the
    /// root: `/var/run` of many hosts is a link to `/run`, which the kernel
    /// would take for this container's own. The last name may be a link itself.
    // req: DOCTOR-5
    pub fn resolve(&self, path: &Path) -> PathBuf {
        if self.is_own() {
            return path.to_owned();
        }
        let mut at = self.0.clone();
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
                    && links < MOST_LINKS
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
                at.clone_from(&self.0);
            }
        }
        at
    }

    /// Where the file behind `path` is: the last name's link is followed too.
    pub fn resolve_target(&self, path: &Path) -> PathBuf {
        // Of a longer path that name is not the last.
        let mut at = self.resolve(&path.join("any"));
        at.pop();
        at
    }

    /// The directory itself.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Whether it is this process's own root, `/`: only then does the kernel
    /// follow links as the host does.
    pub fn is_own(&self) -> bool {
        self.0 == Path::new("/")
    }
}

/// Where a link leads. No link has a path that the kernel refuses, so that none is
/// looked for at one that is longer, however many names it has.
fn link_target(path: &Path) -> Option<PathBuf> {
    if path.as_os_str().len() >= LONGEST_PATH {
        return None;
    }
    fs::read_link(path).ok()
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
        let path = self.resolve(Path::new(path));
        let parent = path.parent().unwrap_or(&self.0);
        let name = path.file_name().and_then(OsStr::to_str);
        match name {
            Some(name) => OsHost::new(parent).lstat(name),
            // The root itself, or a path that ends in `..`.
            None => Ok(HostNode::NotADevice),
        }
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
            assert_eq!(root.resolve(Path::new(path)), at(found), "{path}");
        }
        // Ends, somewhere.
        assert!(
            root.resolve(Path::new("/var/loop/x"))
                .starts_with(dir.path())
        );
    }

    #[test]
    fn a_path_of_any_length_is_found_in_time() {
        // A process's command line or a configuration may name such a path.
        let long = "/name".repeat(100_000);
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        let began = Instant::now();
        let found = root.resolve(Path::new(&long));
        assert_eq!(found, dir.path().join(long.trim_start_matches('/')));
        // For giving up only: looking for links in all of it takes minutes.
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn this_host_is_left_to_the_kernel() {
        for path in ["/var/run/cdi", "relative/dir"] {
            let root = Root::new(Path::new("/")).unwrap();
            assert_eq!(root.resolve(Path::new(path)), Path::new(path));
        }
    }
}
