//! kubelet's watch of the registry directory and its subdirectories: inotify, for Create and
//! Remove only.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

/// A change that the registration loop handles.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A socket was created.
    Created(PathBuf),
    /// The file at the path was removed.
    Removed(PathBuf),
}

/// The watch. The kernel buffers the events until the registration loop reads them.
pub(super) struct Watcher {
    inotify: Inotify,
    directories: HashMap<WatchDescriptor, PathBuf>,
}

impl Watcher {
    /// Begins to watch, and returns the existing sockets as created (fact: kubelet walks the
    /// tree when it starts).
    pub(super) fn new(registry: &Path) -> io::Result<(Self, Vec<Change>)> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let mut watcher = Self {
            inotify,
            directories: HashMap::new(),
        };
        let mut changes = Vec::new();
        watcher.walk(registry, &mut changes)?;
        Ok((watcher, changes))
    }

    /// The changes since the last call, in order.
    pub(super) fn changes(&mut self) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        loop {
            match self.inotify.read_events() {
                Ok(events) => {
                    for event in events {
                        self.translate(event, &mut changes);
                    }
                }
                Err(Errno::EAGAIN) => return Ok(changes),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Translates an event as fsnotify does: a file created here or moved here is a Create; a
    /// file moved away is a Rename, which kubelet ignores.
    fn translate(&mut self, event: InotifyEvent, changes: &mut Vec<Change>) {
        let (Some(directory), Some(name)) = (self.directories.get(&event.wd), event.name) else {
            return;
        };
        let path = directory.join(name);
        if event.mask.contains(AddWatchFlags::IN_DELETE) {
            changes.push(Change::Removed(path));
        } else {
            self.created(&path, changes);
        }
    }

    fn created(&mut self, path: &Path, changes: &mut Vec<Change>) {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let Ok(kind) = fs::symlink_metadata(path).map(|meta| meta.file_type()) else {
            return;
        };
        if hidden {
            return;
        }
        if kind.is_dir() {
            if let Err(error) = self.walk(path, changes) {
                tracing::warn!(path = %path.display(), %error, "cannot watch a directory");
            }
        } else if kind.is_socket() {
            changes.push(Change::Created(path.to_owned()));
        }
    }

    fn walk(&mut self, directory: &Path, changes: &mut Vec<Change>) -> io::Result<()> {
        let flags =
            AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE;
        let watch = self.inotify.add_watch(directory, flags)?;
        self.directories.insert(watch, directory.to_owned());
        for entry in fs::read_dir(directory)? {
            self.created(&entry?.path(), changes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_created_and_removed_sockets_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let _old = UnixListener::bind(at("old.sock")).unwrap();
        let (mut watcher, found) = Watcher::new(root.path()).unwrap();
        assert_eq!(found, [Change::Created(at("old.sock"))]);

        fs::write(at("a file"), "").unwrap();
        let _hidden = UnixListener::bind(at(".new")).unwrap();
        // A Create of the new name; the old name gets only a Rename.
        fs::rename(at(".new"), at("new.sock")).unwrap();
        assert_eq!(
            watcher.changes().unwrap(),
            [Change::Created(at("new.sock"))]
        );

        fs::rename(at("old.sock"), at(".aside")).unwrap();
        fs::create_dir(at("below")).unwrap();
        let _deep = UnixListener::bind(at("below/deep.sock")).unwrap();
        fs::remove_file(at("new.sock")).unwrap();
        let mut seen = watcher.changes().unwrap();
        let _later = UnixListener::bind(at("below/later.sock")).unwrap();
        seen.extend(watcher.changes().unwrap());
        assert!(seen.contains(&Change::Created(at("below/deep.sock"))));
        assert!(seen.contains(&Change::Created(at("below/later.sock"))));
        assert!(seen.contains(&Change::Removed(at("new.sock"))));
        assert!(!seen.contains(&Change::Removed(at("old.sock"))));
    }
}
