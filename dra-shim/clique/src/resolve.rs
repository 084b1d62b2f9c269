//! Symbolic links resolved as a process whose root is another directory would.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::root::Reason;

/// As many links as Linux itself follows in one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Follows `inside` from `root` to a regular file, and returns that file's path
/// with no link left below `root`. Absolute links and `..` stay inside `root`;
/// links in `root` itself are the caller's business and are followed as usual.
pub(crate) fn regular_file(root: &Path, inside: &Path) -> Result<PathBuf, Reason> {
    let mut walk = Walk::new(root, inside);
    walk.follow()?;
    let path = root.join(&walk.reached);
    let metadata = path.symlink_metadata().map_err(|e| walk.reason(&e))?;
    if metadata.is_file() {
        Ok(path)
    } else {
        Err(Reason::NotAFile)
    }
}

/// Follows `inside` likewise, to whatever is there, and returns its path from
/// `root` on: equal for two ways to one directory.
pub(crate) fn inside(root: &Path, inside: &Path) -> Result<PathBuf, Reason> {
    let mut walk = Walk::new(root, inside);
    walk.follow()?;
    Ok(walk.reached)
}

/// `root/reached` is free of links; `pending` is still to be followed.
struct Walk<'a> {
    root: &'a Path,
    reached: PathBuf,
    pending: VecDeque<Step>,
    links: usize,
    /// The last component of the path asked for is there and is a link.
    behind_link: bool,
}

enum Step {
    Up,
    Into(OsString),
}

// === impl Walk ===

impl Walk<'_> {
    fn new<'a>(root: &'a Path, inside: &Path) -> Walk<'a> {
        let mut walk = Walk {
            root,
            reached: PathBuf::new(),
            pending: VecDeque::new(),
            links: 0,
            behind_link: false,
        };
        walk.prepend(inside);
        walk
    }

    fn prepend(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::ParentDir => self.pending.push_front(Step::Up),
                Component::Normal(name) => self.pending.push_front(Step::Into(name.to_owned())),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
    }

    fn follow(&mut self) -> Result<(), Reason> {
        while let Some(step) = self.pending.pop_front() {
            match step {
                Step::Up => {
                    self.reached.pop();
                }
                Step::Into(name) => self.enter(&name)?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, name: &OsString) -> Result<(), Reason> {
        self.reached.push(name);
        let path = self.root.join(&self.reached);
        let metadata = path.symlink_metadata().map_err(|e| self.reason(&e))?;
        if !metadata.is_symlink() {
            return Ok(());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Reason::LinkLoop);
        }
        // A link's target goes before what is left of the path, so nothing is
        // left only once the path's own last component was taken.
        self.behind_link |= self.pending.is_empty();
        let target = path.read_link().map_err(|e| self.reason(&e))?;
        if target.is_absolute() {
            self.reached.clear();
        } else {
            self.reached.pop();
        }
        self.prepend(&target);
        Ok(())
    }

    fn reason(&self, error: &io::Error) -> Reason {
        match error.kind() {
            io::ErrorKind::NotFound if self.behind_link => Reason::BrokenLink {
                missing: Path::new("/").join(&self.reached),
            },
            io::ErrorKind::NotFound => Reason::Missing,
            kind => Reason::Unreadable(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const LIB: &str = "usr/lib64/libnvidia-ml.so.1";

    fn root() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
        dir
    }

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
    fn a_link_to_nothing_says_what_is_missing_inside_the_root() {
        let dir = root();
        symlink("libnvidia-ml.so.580", dir.path().join(LIB)).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new(LIB)),
            Err(Reason::BrokenLink {
                missing: "/usr/lib64/libnvidia-ml.so.580".into()
            })
        );
    }

    #[test]
    fn a_name_that_is_not_in_a_linked_directory_is_missing_and_no_broken_link() {
        let dir = root();
        symlink("usr/lib64", dir.path().join("lib64")).unwrap();
        symlink("/usr/nowhere", dir.path().join("lib")).unwrap();
        for inside in ["lib64/libnvidia-ml.so.1", "lib/libnvidia-ml.so.1"] {
            assert_eq!(
                regular_file(dir.path(), Path::new(inside)),
                Err(Reason::Missing),
                "{inside}"
            );
        }
    }

    #[test]
    fn a_broken_link_in_a_linked_directory_and_one_at_the_end_of_a_chain_are_broken() {
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
            Err(Reason::BrokenLink {
                missing: "/opt".into()
            })
        );
    }

    #[test]
    fn links_in_a_circle_end() {
        let dir = root();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new("a")),
            Err(Reason::LinkLoop)
        );
    }

    #[test]
    fn a_directory_of_the_right_name_is_not_the_library() {
        let dir = root();
        fs::create_dir(dir.path().join(LIB)).unwrap();
        assert_eq!(
            regular_file(dir.path(), Path::new(LIB)),
            Err(Reason::NotAFile)
        );
    }
}
