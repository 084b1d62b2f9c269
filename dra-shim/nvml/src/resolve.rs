//! Resolves symbolic links relative to another root directory, as after chroot.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::not_found::RejectReason;

/// Linux's maximum number of links in one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Follows `path` from `root` to a regular file, and returns that file's path without links
/// below `root`. Absolute links and `..` do not leave `root`. Links in `root` itself are followed
/// as usual.
pub(crate) fn regular_file(root: &Path, path: &Path) -> Result<PathBuf, RejectReason> {
    let mut walk = Walk::new(root, path);
    walk.follow()?;
    let path = root.join(&walk.reached);
    let metadata = path.symlink_metadata().map_err(|e| walk.reason(&e))?;
    if metadata.is_file() {
        Ok(path)
    } else {
        Err(RejectReason::NotAFile)
    }
}

/// Follows `path` to a file of any kind, and returns its path relative to `root`. Two paths to
/// one directory have the same result.
// req: NODE-36
pub(crate) fn path_inside(root: &Path, path: &Path) -> Result<PathBuf, RejectReason> {
    let mut walk = Walk::new(root, path);
    walk.follow()?;
    Ok(walk.reached)
}

/// A walk along a path: `root/reached` has no links, and `pending` is the rest of the path.
struct Walk<'a> {
    root: &'a Path,
    reached: PathBuf,
    pending: VecDeque<Step>,
    links: usize,
    /// Whether the last component of the original path exists and is a link.
    behind_link: bool,
}

enum Step {
    Up,
    Down(OsString),
}

// === impl Walk ===

impl Walk<'_> {
    fn new<'a>(root: &'a Path, path: &Path) -> Walk<'a> {
        let mut walk = Walk {
            root,
            reached: PathBuf::new(),
            pending: VecDeque::new(),
            links: 0,
            behind_link: false,
        };
        walk.prepend(path);
        walk
    }

    fn prepend(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::ParentDir => self.pending.push_front(Step::Up),
                Component::Normal(name) => self.pending.push_front(Step::Down(name.to_owned())),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
    }

    fn follow(&mut self) -> Result<(), RejectReason> {
        while let Some(step) = self.pending.pop_front() {
            match step {
                Step::Up => {
                    self.reached.pop();
                }
                Step::Down(name) => self.descend(&name)?,
            }
        }
        Ok(())
    }

    fn descend(&mut self, name: &OsString) -> Result<(), RejectReason> {
        self.reached.push(name);
        // One call reads both the type and the target: between two calls, the link may be replaced.
        let target = match self.root.join(&self.reached).read_link() {
            Ok(target) => target,
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => return Ok(()),
            Err(error) => return Err(self.reason(&error)),
        };
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(RejectReason::LinkLoop);
        }
        // A link's target is put before the rest of the path, so `pending` is empty only after
        // the last component of the original path.
        self.behind_link |= self.pending.is_empty();
        if target.is_absolute() {
            self.reached.clear();
        } else {
            self.reached.pop();
        }
        self.prepend(&target);
        Ok(())
    }

    fn reason(&self, error: &io::Error) -> RejectReason {
        match error.kind() {
            io::ErrorKind::NotFound if self.behind_link => RejectReason::BrokenLink {
                missing: Path::new("/").join(&self.reached),
            },
            io::ErrorKind::NotFound => RejectReason::Missing,
            kind => RejectReason::Unreadable(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

    use super::*;

    const LIB: &str = "usr/lib64/libnvidia-ml.so.1";

    fn root() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
        dir
    }

    // req: NODE-36
    #[test]
    fn an_absolute_link_stays_inside_the_root() {
        let dir = root();
        fs::create_dir(dir.path().join("opt")).unwrap();
        fs::write(dir.path().join("opt/real.so"), "inside").unwrap();
        symlink("/opt/real.so", dir.path().join(LIB)).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new(LIB)),
            Ok(dir.path().join("opt/real.so"))
        );
    }

    // req: NODE-36
    #[test]
    fn dots_cannot_climb_out_of_the_root() {
        let dir = root();
        fs::write(dir.path().join("real.so"), "inside").unwrap();
        symlink("../../../../../../../../../real.so", dir.path().join(LIB)).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new(LIB)),
            Ok(dir.path().join("real.so"))
        );
    }

    #[test]
    fn a_linked_directory_is_followed_before_the_rest_of_the_path() {
        let dir = root();
        fs::write(dir.path().join(LIB), "inside").unwrap();
        symlink("usr/lib64", dir.path().join("lib64")).unwrap();
        symlink("/lib64/../lib64", dir.path().join("again")).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new("again/libnvidia-ml.so.1")),
            Ok(dir.path().join(LIB))
        );
    }

    #[test]
    fn a_broken_link_reports_the_missing_path_inside_the_root() {
        let dir = root();
        symlink("libnvidia-ml.so.580", dir.path().join(LIB)).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new(LIB)),
            Err(RejectReason::BrokenLink {
                missing: "/usr/lib64/libnvidia-ml.so.580".into()
            })
        );
    }

    #[test]
    fn a_missing_file_in_a_linked_directory_is_not_a_broken_link() {
        let dir = root();
        symlink("usr/lib64", dir.path().join("lib64")).unwrap();
        symlink("/usr/nowhere", dir.path().join("lib")).unwrap();
        for inside in ["lib64/libnvidia-ml.so.1", "lib/libnvidia-ml.so.1"] {
            assert_eq!(
                regular_file(dir.path(), Path::new(inside)),
                Err(RejectReason::Missing),
                "{inside}"
            );
        }
    }

    #[test]
    fn broken_links_in_a_linked_directory_or_at_the_end_of_a_chain_are_found() {
        let dir = root();
        symlink("usr/lib64", dir.path().join("lib64")).unwrap();
        symlink("libnvidia-ml.so.580", dir.path().join(LIB)).unwrap();
        symlink(
            "/opt/driver/real.so",
            dir.path().join("usr/lib64/libnvidia-ml.so.580"),
        )
        .unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new("lib64/libnvidia-ml.so.1")),
            Err(RejectReason::BrokenLink {
                missing: "/opt".into()
            })
        );
    }

    /// lstat followed by readlink may see a link and then a directory. With qemu-user's -L they always do if the
    /// host has one of them and the prefix has the other.
    #[test]
    fn a_link_that_is_exchanged_with_a_directory_is_always_readable() {
        let dir = root();
        let at = |path: &str| dir.path().join(path);
        fs::write(at(LIB), "inside").unwrap();
        fs::create_dir(at("b")).unwrap();
        symlink("usr/lib64", at("a")).unwrap();
        let done = AtomicBool::new(false);
        let mut unreadable = false;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let flags = RenameFlags::RENAME_EXCHANGE;
                    renameat2(AT_FDCWD, &at("a"), AT_FDCWD, &at("b"), flags).unwrap();
                }
            });
            for _ in 0..20_000 {
                let found = regular_file(dir.path(), Path::new("a/libnvidia-ml.so.1"));
                unreadable |= matches!(found, Err(RejectReason::Unreadable(_)));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(!unreadable);
    }

    #[test]
    fn a_loop_of_links_ends() {
        let dir = root();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new("a")),
            Err(RejectReason::LinkLoop)
        );
    }

    #[test]
    fn a_directory_of_the_right_name_is_not_the_library() {
        let dir = root();
        fs::create_dir(dir.path().join(LIB)).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new(LIB)),
            Err(RejectReason::NotAFile)
        );
    }
}
