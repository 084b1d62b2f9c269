//! Removes sockets of dead instances of this driver: sockets that have the driver's name and
//! refuse connections. Sockets of live instances, for example during a rolling update, accept
//! connections.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;

use super::sockets::Directories;
use crate::file_id::file_id;

/// Removes stale sockets from both directories. Errors are only logged, because the removal is
/// retried.
// req: KUBELET-11
pub(super) async fn remove(directories: &Directories) {
    for path in sockets(directories) {
        remove_if_dead(&path).await;
    }
}

/// The sockets in both directories that have this driver's name, of any instance of this
/// library or of Go's kubeletplugin.
pub(super) fn sockets(directories: &Directories) -> Vec<PathBuf> {
    let prefix = format!("{}-", directories.driver);
    let registration = |name: &str| {
        let name = name.strip_prefix('.').unwrap_or(name);
        let Some(rest) = name.strip_prefix(&prefix) else {
            return name == format!("{}@reg.sock", directories.driver);
        };
        is_instance(rest, "@reg.sock", "-reg.sock") || rest == "reg.sock"
    };
    let service = |name: &str| {
        let name = name.strip_prefix('.').unwrap_or(name);
        let Some(rest) = name.strip_prefix("dra-") else {
            return name == "dra.sock";
        };
        is_instance(rest, "@plugin.sock", ".sock")
    };
    let mut sockets = sockets_in(&directories.registry, registration);
    sockets.extend(sockets_in(&directories.data, service));
    sockets
}

/// Whether `rest`, the name after the driver's prefix, is that of an instance: 8 hex digits
/// of this library (without `ours` in a dot-name), or the pod UID of Go's kubeletplugin
/// before `foreign`.
fn is_instance(rest: &str, ours: &str, foreign: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let stem = rest.strip_suffix(ours).unwrap_or(rest);
    if stem.len() == 8 && is_hex(stem) {
        return true;
    }
    rest.strip_suffix(foreign)
        .is_some_and(|uid| uid.len() == 36 && is_hex(&uid.replace('-', "")))
}

fn sockets_in(directory: &Path, is_ours: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let ours = entries.flatten().filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_socket())
            && entry.file_name().to_str().is_some_and(&is_ours)
    });
    ours.map(|entry| entry.path()).collect()
}

async fn remove_if_dead(path: &Path) {
    let Ok(id) = file_id(path) else { return };
    if !refuses(path).await {
        return;
    }
    // A socket that is bound but not yet listening also refuses, for microseconds.
    tokio::time::sleep(Duration::from_millis(200)).await;
    if refuses(path).await && file_id(path).is_ok_and(|now| now == id) {
        match fs::remove_file(path) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "removed the socket of a plugin instance that no longer runs");
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot remove the socket of a plugin instance that no longer runs");
            }
        }
    }
}

async fn refuses(path: &Path) -> bool {
    let connect = tokio::time::timeout(Duration::from_secs(1), UnixStream::connect(path)).await;
    matches!(connect, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::super::sockets::SocketFile;
    use super::*;

    // req: KUBELET-11
    #[tokio::test]
    async fn dead_sockets_of_this_driver_are_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories {
            driver: "d.example.com".into(),
            registry: root.path().join("plugins_registry"),
            data: root.path().join("plugins/d.example.com"),
        };
        let uid = "12345678-1234-1234-1234-123456789abc";
        let registry = [
            ("d.example.com-0011aabb@reg.sock".to_owned(), true),
            ("d.example.com-reg.sock".to_owned(), true),
            (format!("d.example.com-{uid}-reg.sock"), true),
            (".d.example.com-0011aabb".to_owned(), true),
            ("other.example.com-0011aabb@reg.sock".to_owned(), false),
        ];
        let data = [
            ("dra-0011aabb@plugin.sock".to_owned(), true),
            ("dra.sock".to_owned(), true),
            ("unrelated.sock".to_owned(), false),
        ];
        fs::create_dir_all(&directories.registry).unwrap();
        fs::create_dir_all(&directories.data).unwrap();
        let all: Vec<_> = registry
            .into_iter()
            .map(|(name, dead)| (directories.registry.join(name), dead))
            .chain(
                data.into_iter()
                    .map(|(name, dead)| (directories.data.join(name), dead)),
            )
            .collect();
        for (path, _) in &all {
            drop(UnixListener::bind(path).unwrap());
        }
        let living = directories.new_sockets().unwrap();
        let _living = SocketFile::open(&living.registration).unwrap();
        fs::write(directories.data.join("dra-00000000@plugin.sock"), "a file").unwrap();

        remove(&directories).await;

        for (path, dead) in all {
            assert_eq!(path.exists(), !dead, "{}", path.display());
        }
        assert!(living.registration.exists());
        assert!(directories.data.join("dra-00000000@plugin.sock").exists());
    }
}
