//! Socket files: directories, names, creation and removal.
//!
//! Every file name contains an `@`. kubelet's gRPC client sends the percent-encoded path as
//! HTTP/2 `:authority`. `h2` rejects it without an `@`, because `%` is not allowed in a host.
//! The part before an `@` is URI userinfo, where `%` is allowed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use dra_common::Advice;
use tokio::net::UnixListener;

use crate::file_id::file_id;

/// `sun_path` holds 108 bytes including the final NUL.
const MAX_PATH: usize = 107;

/// The directories of one driver on one node.
#[derive(Clone, Debug)]
pub(crate) struct Directories {
    pub(crate) driver: String,
    /// The directory that kubelet watches; kubelet dials every socket that appears in it.
    pub(crate) registry: PathBuf,
    /// The driver's data directory.
    pub(crate) data: PathBuf,
}

/// Error of opening the sockets.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "mount kubelet's directory into the container, writable, at the same path")]
pub enum SocketError {
    /// The path is longer than a socket address allows.
    #[error("socket path {} is too long: {} bytes; the path of a unix socket can have at most {MAX_PATH} bytes", path.display(), path.as_os_str().len())]
    #[advice(
        code = "socket-path-too-long",
        hint = "use a shorter kubelet root or driver name"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The path is relative; kubelet has another working directory.
    #[error("socket directory {} is not an absolute path", path.display())]
    #[advice(
        code = "socket-directory-not-absolute",
        hint = "use the absolute path that kubelet uses"
    )]
    NotAbsolute {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is missing and cannot be created.
    #[error("cannot create socket directory {}", path.display())]
    #[advice(code = "socket-directory")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The socket cannot be created.
    #[error("cannot open socket {}", path.display())]
    #[advice(code = "socket-open")]
    Open {
        /// The final path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The paths of a pair of sockets.
#[derive(Clone, Debug)]
pub(super) struct SocketPaths {
    pub(super) registration: PathBuf,
    pub(super) service: PathBuf,
}

/// The file of a listening socket. Dropping it removes the file, unless another file has
/// replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

// === impl Directories ===

impl Directories {
    /// Returns new names each time. If a known name reappears, kubelet first unregisters it, and
    /// calls fail until it is registered again.
    // req: KUBELET-2, KUBELET-3, KUBELET-12
    pub(super) fn new_sockets(&self) -> Result<SocketPaths, SocketError> {
        let suffix = format!("{:08x}", fastrand::u32(..));
        let registration = format!("{}-{suffix}@reg.sock", self.driver);
        Ok(SocketPaths {
            registration: checked(&self.registry, &registration)?,
            service: checked(&self.data, &format!("dra-{suffix}@plugin.sock"))?,
        })
    }
}

// req: KUBELET-4
fn checked(directory: &Path, name: &str) -> Result<PathBuf, SocketError> {
    if !directory.is_absolute() {
        return Err(SocketError::NotAbsolute {
            path: directory.to_owned(),
        });
    }
    let path = directory.join(name);
    if path.as_os_str().len() > MAX_PATH {
        return Err(SocketError::TooLong { path });
    }
    Ok(path)
}

// === impl SocketFile ===

impl SocketFile {
    /// Binds the socket under a dot-name, which kubelet's watcher ignores, and renames it. When
    /// the file appears, it is listening and has its final mode.
    // req: KUBELET-2
    pub(super) fn open(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        let failed = |source| SocketError::Open {
            path: path.to_owned(),
            source,
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(|source| SocketError::Directory {
                path: directory.to_owned(),
                source,
            })?;
        }
        let hidden = dot_name(path);
        let listener = UnixListener::bind(&hidden).map_err(failed)?;
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&hidden, path))
            .and_then(|()| file_id(path))
            .map(|id| {
                (
                    Self {
                        path: path.to_owned(),
                        id,
                    },
                    listener,
                )
            })
            .map_err(|source| {
                let _ = fs::remove_file(&hidden);
                failed(source)
            })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still refers to this socket. If not, kubelet has detected that too.
    pub(super) fn exists(&self) -> bool {
        file_id(&self.path).is_ok_and(|id| id == self.id)
    }
}

// req: KUBELET-10
impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.exists() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `DIR/NAME@kind.sock` -> `DIR/.NAME`: shorter, so it fits where the final name does.
fn dot_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split_once('@').map_or(&*name, |(stem, _)| stem);
    path.with_file_name(format!(".{stem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_directories(root: &Path) -> Directories {
        Directories {
            driver: "d.example.com".into(),
            registry: root.join("plugins_registry"),
            data: root.join("plugins/d.example.com"),
        }
    }

    // req: KUBELET-2
    #[test]
    fn both_names_contain_an_at_sign_and_are_new_each_time() {
        let directories = mk_directories(Path::new("/var/lib/kubelet"));
        let (one, two) = (
            directories.new_sockets().unwrap(),
            directories.new_sockets().unwrap(),
        );
        for path in [&one.registration, &one.service] {
            assert!(path.file_name().unwrap().to_str().unwrap().contains('@'));
        }
        assert_ne!(one.registration, two.registration);
        assert_ne!(one.service, two.service);
    }

    // req: KUBELET-4
    #[test]
    fn below_the_default_root_a_driver_name_may_have_55_characters() {
        let root = Path::new("/var/lib/kubelet");
        let sockets = |length| {
            let driver = "d".repeat(length);
            let data = root.join("plugins").join(&driver);
            Directories {
                registry: root.join("plugins_registry"),
                data,
                driver,
            }
            .new_sockets()
        };
        let longest = sockets(55).unwrap();
        assert_eq!(longest.registration.as_os_str().len(), MAX_PATH);
        assert!(matches!(sockets(56), Err(SocketError::TooLong { .. })));
    }

    // req: KUBELET-4
    #[test]
    fn a_path_too_long_for_a_socket_is_refused_with_its_length() {
        let directories = mk_directories(&Path::new("/").join("x".repeat(80)));
        let error = directories.new_sockets().unwrap_err();
        assert!(error.to_string().contains("bytes"), "{error}");
    }

    // req: KUBELET-2
    #[tokio::test]
    async fn an_open_socket_has_only_its_final_name_and_is_removed_on_drop() {
        let root = tempfile::tempdir().unwrap();
        let paths = mk_directories(root.path()).new_sockets().unwrap();
        let (file, _listener) = SocketFile::open(&paths.service).unwrap();
        let files = fs::read_dir(paths.service.parent().unwrap())
            .unwrap()
            .count();
        assert_eq!(files, 1);
        assert!(file.exists());
        drop(file);
        assert!(!paths.service.exists());
    }
}
