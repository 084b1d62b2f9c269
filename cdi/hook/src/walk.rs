//! Opens a path inside a root component by component, where `openat2` is missing: kernels before 5.6, emulators,
//! seccomp filters that do not know it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;

/// Linux's maximum number of links in one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Opens `path` below `root`. Absolute links and `..` do not leave `root`; the text of a magic link of `/proc` is
/// taken for a path inside `root`.
pub(crate) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let mut walk = Walk {
        root,
        reached: Vec::new(),
        pending: VecDeque::new(),
        links: 0,
    };
    walk.prepend(path);
    walk.open(flags | OFlag::O_CLOEXEC)
}

/// A walk along a path. Its open directories keep their place even if they are renamed meanwhile.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    reached: Vec<OwnedFd>,
    pending: VecDeque<Step>,
    links: usize,
}

enum Step {
    Up,
    Down(OsString),
}

// === impl Walk ===

impl Walk<'_> {
    fn open(&mut self, flags: OFlag) -> nix::Result<OwnedFd> {
        let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        while let Some(step) = self.pending.pop_front() {
            let Step::Down(name) = step else {
                self.reached.pop();
                continue;
            };
            match readlinkat(self.at(), name.as_os_str()) {
                Ok(target) => self.follow(Path::new(&target))?,
                Err(Errno::EINVAL) => {
                    let is_last = self.pending.is_empty();
                    let flags = if is_last { flags } else { directory } | OFlag::O_NOFOLLOW;
                    let opened = openat(self.at(), name.as_os_str(), flags, Mode::empty())?;
                    if is_last {
                        return Ok(opened);
                    }
                    self.reached.push(opened);
                }
                Err(error) => return Err(error),
            }
        }
        openat(self.at(), ".", flags, Mode::empty())
    }

    fn at(&self) -> BorrowedFd<'_> {
        self.reached.last().map_or(self.root, AsFd::as_fd)
    }

    fn follow(&mut self, target: &Path) -> nix::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        if target.is_absolute() {
            self.reached.clear();
        }
        self.prepend(target);
        Ok(())
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
}
