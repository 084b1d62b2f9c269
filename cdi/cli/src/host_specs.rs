//! The host that a command examines, and its directories of CDI specs.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use compute_domain_api::names::DRIVER_NAME;
use host_doctor::{Host, Root, RootError};
use imex_cdi::{DEFAULT_DIRS, DirState, Registry, SpecDir};

use crate::args::{KubeletRoot, SpecDirs};
use crate::outcome::{CommandError, Outcome};

/// [`SpecDirs`], with an open root.
pub(crate) struct HostSpecs {
    root: Root,
    /// As given: the host's names.
    dirs: Vec<PathBuf>,
}

/// Why the host cannot be examined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("the root {} is empty", path.display())]
    EmptyRoot { path: PathBuf },
    #[error("cannot list the spec directory {}", path.display())]
    SpecDir { path: PathBuf, source: io::Error },
}

/// Whether it is one of the directories that need not exist.
fn is_default(dir: &Path) -> bool {
    DEFAULT_DIRS.iter().any(|default| dir == Path::new(default))
}

/// Its path, and whether it exists.
pub(crate) fn describe_dir(dir: &SpecDir) -> String {
    let path = dir.path.display();
    match dir.state {
        DirState::Absent => format!("{path} (does not exist)"),
        DirState::Listed | DirState::Skipped(_) => path.to_string(),
    }
}

// === impl KubeletRoot ===

impl KubeletRoot {
    /// The directory of the kubelet plugin.
    pub(crate) fn plugin_dir(&self) -> PathBuf {
        self.path.join("plugins").join(DRIVER_NAME)
    }
}

// === impl HostSpecs ===

impl HostSpecs {
    pub(crate) fn open(args: &SpecDirs) -> Result<Self, HostError> {
        let SpecDirs { dirs, root } = args;
        Ok(Self {
            root: Root::new(root)?,
            dirs: dirs.clone(),
        })
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// An error if there is nothing in the root: a host of which nothing is known would
    /// seem healthy.
    pub(crate) fn check_root(&self) -> Result<(), HostError> {
        let path = self.root.as_path();
        let mut entries = fs::read_dir(path).into_iter().flatten();
        match entries.next() {
            Some(_) => Ok(()),
            None => Err(HostError::EmptyRoot {
                path: path.to_owned(),
            }),
        }
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(self.root.clone())
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry::load(&self.dirs())
    }

    /// The directories, below the root, lowest priority first.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| self.root.resolve(dir)).collect()
    }

    /// An error if a directory that was named does not exist: it is misspelt, or
    /// on another host. A default directory that does not exist is as good as an
    /// empty one.
    pub(crate) fn check_dirs(&self) -> Result<(), HostError> {
        let named = self.dirs.iter().filter(|dir| !is_default(dir));
        for path in named.map(|dir| self.root.resolve(dir)) {
            if let Err(source) = path.symlink_metadata()
                && source.kind() == io::ErrorKind::NotFound
            {
                return Err(HostError::SpecDir { path, source });
            }
        }
        Ok(())
    }
}

// === impl HostError ===

impl CommandError for HostError {
    fn outcome(&self) -> Outcome {
        Outcome::Io
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Root(_) => "pass to --root the directory where the host's root is mounted",
            Self::EmptyRoot { .. } => {
                "the host's root is not mounted there: check --root, and the mounts of the debug pod"
            }
            Self::SpecDir { .. } => "check what --spec-dir and --root name",
        };
        Some(hint.into())
    }
}
