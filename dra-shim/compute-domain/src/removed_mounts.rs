//! Notices that a directory of the host was removed, and perhaps made anew, which this
//! container has mounted: the mount keeps the removed one, in which nothing can be
//! created and nobody sees what is there. Only a new container mounts the new one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon_runtime::Heartbeat;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Pause between two looks, each of which is one `stat` of each directory.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A name that is tried in a directory which seems to be removed.
const PROBE: &str = ".compute-domain-probe";

/// The task that looks.
pub(crate) struct RemovedMounts {
    /// The directories that are mounted.
    pub(crate) mounts: Vec<PathBuf>,
    /// It fails once one of them is removed, so that kubelet restarts the container.
    pub(crate) heartbeat: Heartbeat,
}

// === impl RemovedMounts ===

impl RemovedMounts {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.watch()).await;
    }

    // req: NODE-41
    async fn watch(&self) {
        loop {
            let mounts = self.mounts.clone();
            let look = move || mounts.into_iter().find(|path| is_removed(path));
            match spawn_blocking(look).await {
                Ok(None) => self.heartbeat.beat(),
                Ok(Some(path)) => {
                    let reason = format!(
                        "{} was removed on the host: only a new container mounts what is there now",
                        path.display()
                    );
                    error!(reason, "the plugin asks for its container's restart");
                    return self.heartbeat.fail(reason);
                }
                Err(error) => error!(%error, "the mounted directories cannot be looked at"),
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Whether what is mounted at `path` has no name any more. A path without a mount, which
/// is simply missing, is not: somebody can make it again.
fn is_removed(path: &Path) -> bool {
    let has_no_link = path.metadata().is_ok_and(|found| found.nlink() == 0);
    // There are file systems that count no links. In a removed directory nothing can
    // be created on any.
    has_no_link && refuses_all(path)
}

fn refuses_all(path: &Path) -> bool {
    let probe = path.join(PROBE);
    if let Err(error) = fs::create_dir(&probe) {
        // What was mounted may also be a removed file, once in the directory's place.
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        return kinds.contains(&error.kind());
    }
    let _ = fs::remove_dir(&probe); // or the next look finds it
    false
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use daemon_runtime::Liveness;

    use super::*;

    /// A path to the directory, whatever becomes of its name: what a mount is.
    fn mount(path: &Path) -> (fs::File, PathBuf) {
        let open = fs::File::open(path).unwrap();
        let mounted = format!("/proc/self/fd/{}", open.as_raw_fd());
        (open, mounted.into())
    }

    // req: NODE-41
    #[tokio::test(start_paused = true)]
    async fn a_removed_directory_fails_liveness_even_if_there_is_one_of_its_name_again() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["cdi", "registry"].map(|name| root.path().join(name));
        for path in &paths {
            fs::create_dir(path).unwrap();
        }
        let mounts = paths.each_ref().map(|path| mount(path));
        let liveness = Liveness::default();
        let watch = RemovedMounts {
            mounts: mounts.iter().map(|(_, path)| path.clone()).collect(),
            heartbeat: liveness.add("mounts", Duration::from_secs(3600)),
        };
        let running = tokio::spawn(watch.run(CancellationToken::new()));
        sleep(3 * LOOK_EVERY).await;
        assert_eq!(liveness.failures(), []);
        assert_eq!(fs::read_dir(&paths[1]).unwrap().count(), 0);

        fs::remove_dir(&paths[1]).unwrap();
        fs::create_dir(&paths[1]).unwrap();
        running.await.unwrap();
        let failures = liveness.failures();
        let [("mounts", reason)] = failures.as_slice() else {
            panic!("{failures:?}");
        };
        let expected = format!("{} was removed on the host", mounts[1].1.display());
        assert!(reason.starts_with(&expected), "{reason}");
    }

    #[test]
    fn a_removed_file_in_the_place_of_a_directory_is_removed_too() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("cdi");
        fs::write(&path, "").unwrap();
        let (_open, mounted) = mount(&path);
        assert!(!is_removed(&mounted));
        fs::remove_file(&path).unwrap();
        assert!(is_removed(&mounted));
    }

    #[test]
    fn a_missing_path_and_a_directory_that_accepts_files_are_not_removed() {
        let root = tempfile::tempdir().unwrap();
        assert!(!is_removed(&root.path().join("missing")));
        assert!(!is_removed(root.path()));
        assert!(!refuses_all(root.path()));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
