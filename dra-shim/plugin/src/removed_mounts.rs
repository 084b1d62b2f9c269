//! Detects that a mounted directory of the host was removed, and perhaps created again. The
//! mount keeps the removed directory: no file can be created in it, and the host does not see
//! its files. Only a new container mounts the new directory.

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

/// Pause between two checks, each one `stat` per directory.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Name of the probe directory, created only where a mount seems to be removed.
const PROBE: &str = ".imex-dra-probe";

/// The task that checks the mounts.
pub(crate) struct RemovedMounts {
    /// The mounted directories.
    pub(crate) mounts: Vec<PathBuf>,
    /// Fails once a mount is removed, so that kubelet restarts the container.
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
                        "{} was removed on the host: only a new container can mount its replacement",
                        path.display()
                    );
                    error!(
                        reason,
                        "/livez fails from now on, so that kubelet restarts the container"
                    );
                    return self.heartbeat.fail(reason);
                }
                Err(error) => error!(%error, "cannot check the mounted directories"),
            }
            sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Whether the mounted directory was removed. A missing path without a mount does not count:
/// it can be created again.
fn is_removed(path: &Path) -> bool {
    let has_no_link = path.metadata().is_ok_and(|found| found.nlink() == 0);
    // Some file systems count no links. On all of them, creating a file in a removed
    // directory fails.
    has_no_link && refuses_all(path)
}

fn refuses_all(path: &Path) -> bool {
    let probe = path.join(PROBE);
    if let Err(error) = fs::create_dir(&probe) {
        // NotADirectory: the mount is a removed file in the directory's place.
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        return kinds.contains(&error.kind());
    }
    let _ = fs::remove_dir(&probe); // if that fails, the next check finds it
    false
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use daemon_runtime::Liveness;

    use super::*;

    /// A path to the directory that survives its removal, like a mount.
    fn mount(path: &Path) -> (fs::File, PathBuf) {
        let open = fs::File::open(path).unwrap();
        let mounted = format!("/proc/self/fd/{}", open.as_raw_fd());
        (open, mounted.into())
    }

    // req: NODE-41
    #[tokio::test(start_paused = true)]
    async fn a_removed_directory_fails_liveness_even_if_created_again() {
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
        sleep(3 * CHECK_INTERVAL).await;
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
