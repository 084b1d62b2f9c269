//! Socket files: where they lie, what they are called, how they appear and go.
//!
//! Every file name carries an `@`. kubelet's gRPC client sends the percent-encoded
//! path as HTTP/2 `:authority`, which `h2` refuses because `%` is no host
//! character; with the `@` everything before it is URI userinfo, where `%` is legal.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// `sun_path` holds 108 bytes with the final NUL.
const MAX_PATH: usize = 107;

/// The directories of one driver on one node.
#[derive(Clone, Debug)]
pub(crate) struct Directories {
    pub(crate) driver: String,
    /// Watched by kubelet, which dials every socket that appears in it.
    pub(crate) registry: PathBuf,
    /// The driver's own.
    pub(crate) data: PathBuf,
}

/// Why the sockets could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path does not fit into a socket address.
    #[error("socket path {} has {} bytes, and a unix socket allows {MAX_PATH}", path.display(), path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The path is relative, and kubelet has another working directory.
    #[error("socket directory {} is not an absolute path", path.display())]
    NotAbsolute {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is missing and cannot be made.
    #[error("cannot create socket directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot open socket {}", path.display())]
    Open {
        /// The final path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SocketError {
    /// A stable word for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "socket-path-too-long",
            Self::NotAbsolute { .. } => "socket-directory-not-absolute",
            Self::Directory { .. } => "socket-directory",
            Self::Open { .. } => "socket-open",
        }
    }

    /// What mends it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "use a shorter kubelet root or driver name",
            Self::NotAbsolute { .. } => "give an absolute path, the one that kubelet uses",
            Self::Directory { .. } | Self::Open { .. } => {
                "mount kubelet's directory into the container, writable, at the same path"
            }
        }
    }
}

/// The two sockets of one instance. New names at every opening: kubelet treats a
/// known name that comes back as a removal first, and refuses calls in between.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) registration: PathBuf,
    pub(crate) service: PathBuf,
}

impl Directories {
    pub(crate) fn names(&self) -> Result<Names, SocketError> {
        let suffix = format!("{:08x}", fastrand::u32(..));
        let registration = format!("{}-{suffix}@reg.sock", self.driver);
        Ok(Names {
            registration: checked(&self.registry, &registration)?,
            service: checked(&self.data, &format!("dra-{suffix}@plugin.sock"))?,
        })
    }
}

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

/// A listening socket's file, recognised again by its inode.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    /// Binds under a dot-name, which kubelet's watcher ignores, and renames: the
    /// file appears listening and with its final mode, or not at all.
    pub(crate) fn open(path: &Path) -> Result<(Self, UnixListener), SocketError> {
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads here. If not, kubelet has noticed too.
    pub(crate) fn is_there(&self) -> bool {
        file_id(&self.path).is_ok_and(|id| id == self.id)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
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

/// Device and inode: what a path leads to, told apart from its successors.
pub(crate) fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
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

    #[test]
    fn both_names_carry_an_at_sign_and_change_every_time() {
        let directories = mk_directories(Path::new("/var/lib/kubelet"));
        let (one, two) = (directories.names().unwrap(), directories.names().unwrap());
        for path in [&one.registration, &one.service] {
            assert!(path.file_name().unwrap().to_str().unwrap().contains('@'));
        }
        assert_ne!(one.registration, two.registration);
        assert_ne!(one.service, two.service);
    }

    #[test]
    fn below_the_default_root_a_driver_name_may_have_55_characters() {
        let root = Path::new("/var/lib/kubelet");
        let names = |length| {
            let driver = "d".repeat(length);
            let data = root.join("plugins").join(&driver);
            Directories {
                registry: root.join("plugins_registry"),
                data,
                driver,
            }
            .names()
        };
        let longest = names(55).unwrap();
        assert_eq!(longest.registration.as_os_str().len(), MAX_PATH);
        assert!(matches!(names(56), Err(SocketError::TooLong { .. })));
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_with_its_length() {
        let directories = mk_directories(&Path::new("/").join("x".repeat(80)));
        let error = directories.names().unwrap_err();
        assert!(error.to_string().contains("bytes"), "{error}");
    }

    #[tokio::test]
    async fn an_open_socket_appears_under_its_name_only_and_goes_with_its_owner() {
        let root = tempfile::tempdir().unwrap();
        let names = mk_directories(root.path()).names().unwrap();
        let (file, _listener) = SocketFile::open(&names.service).unwrap();
        let files = fs::read_dir(names.service.parent().unwrap())
            .unwrap()
            .count();
        assert_eq!(files, 1);
        assert!(file.is_there());
        drop(file);
        assert!(!names.service.exists());
    }
}
