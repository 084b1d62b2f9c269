//! Detects other instances of the driver on the node that should have ended. Two plugins with
//! one name take each other's registrations and calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::sockets::Directories;
use super::stale_sockets;

/// Period of the check: it lists two directories, and connects to each socket of another
/// instance.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Time that another instance of this library may remain: as long as an update takes, during
/// which the old instance ends when the new one is ready.
const MAX_UPDATE_TIME: Duration = Duration::from_secs(600);
/// Time that an instance of Go's kubeletplugin may remain: it is being replaced, and ends
/// before the check after the next.
const MAX_REPLACEMENT_TIME: Duration = Duration::from_secs(60);

/// The live sockets of other instances, with the time when each was first observed.
pub(super) struct OtherInstances {
    seen: BTreeMap<PathBuf, Instant>,
    reported: watch::Sender<Vec<PathBuf>>,
}

// === impl OtherInstances ===

impl OtherInstances {
    pub(super) const fn new(reported: watch::Sender<Vec<PathBuf>>) -> Self {
        Self {
            seen: BTreeMap::new(),
            reported,
        }
    }

    /// Checks the sockets other than `own`, and reports those that have accepted connections
    /// for too long.
    pub(super) async fn check_sockets(&mut self, directories: &Directories, own: &[&Path]) {
        let mut living = Vec::new();
        for path in stale_sockets::sockets(directories) {
            if !own.contains(&path.as_path()) && accepts(&path).await {
                living.push(path);
            }
        }
        let overdue = self.observe(living, Instant::now());
        self.reported.send_if_modified(|reported| {
            let changed = *reported != overdue;
            *reported = overdue;
            changed
        });
    }

    /// Records the live sockets, and returns those that remain too long.
    fn observe(&mut self, living: Vec<PathBuf>, now: Instant) -> Vec<PathBuf> {
        self.seen.retain(|path, _| living.contains(path));
        for path in living {
            self.seen.entry(path).or_insert(now);
        }
        let stays = |(path, since): &(&PathBuf, &Instant)| {
            // The names of this library's sockets contain an `@`.
            let is_ours = path.to_string_lossy().contains('@');
            let limit = if is_ours {
                MAX_UPDATE_TIME
            } else {
                MAX_REPLACEMENT_TIME
            };
            now.saturating_duration_since(**since) >= limit
        };
        let overdue = self.seen.iter().filter(stays);
        overdue.map(|(path, _)| path.clone()).collect()
    }
}

async fn accepts(path: &Path) -> bool {
    let connect = tokio::time::timeout(Duration::from_secs(1), UnixStream::connect(path)).await;
    matches!(connect, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    fn listen(directories: &Directories, name: &str) -> (PathBuf, UnixListener) {
        let path = directories.registry.join(name);
        let listener = UnixListener::bind(&path).unwrap();
        (path, listener)
    }

    fn mk_directories(root: &Path) -> Directories {
        let directories = Directories {
            driver: "d.example.com".into(),
            registry: root.join("plugins_registry"),
            data: root.join("plugins/d.example.com"),
        };
        std::fs::create_dir_all(&directories.registry).unwrap();
        std::fs::create_dir_all(&directories.data).unwrap();
        directories
    }

    #[tokio::test(start_paused = true)]
    async fn another_instance_that_remains_is_reported_until_it_ends() {
        let root = tempfile::tempdir().unwrap();
        let directories = mk_directories(root.path());
        let (own, _own) = listen(&directories, "d.example.com-00000000@reg.sock");
        let (go, go_listens) = listen(&directories, "d.example.com-reg.sock");
        let (update, _update) = listen(&directories, "d.example.com-0011aabb@reg.sock");
        let (_other, _listens) = listen(&directories, "other.example.com-reg.sock");
        let (dead, dead_listener) = listen(
            &directories,
            "d.example.com-12345678-1234-1234-1234-123456789abc-reg.sock",
        );
        drop(dead_listener);
        assert!(dead.exists());

        let sender = watch::Sender::new(Vec::new());
        let reported = sender.subscribe();
        let mut others = OtherInstances::new(sender);
        let own = [own.as_path()];
        others.check_sockets(&directories, &own).await;
        assert!(reported.borrow().is_empty(), "it may be ending");
        tokio::time::advance(MAX_REPLACEMENT_TIME).await;
        others.check_sockets(&directories, &own).await;
        assert_eq!(reported.borrow().as_slice(), std::slice::from_ref(&go));
        tokio::time::advance(MAX_UPDATE_TIME).await;
        others.check_sockets(&directories, &own).await;
        assert_eq!(*reported.borrow(), [update.clone(), go]);
        drop(go_listens);
        others.check_sockets(&directories, &own).await;
        assert_eq!(*reported.borrow(), [update]);
    }
}
