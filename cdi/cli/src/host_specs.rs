//! The host that a command examines, and its CDI specs.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use dra_common::error_chain;
use host_doctor::Host;
use imex_cdi::{DEFAULT_DIRS, DirError, DirState, LoadError, Registry, Spec, SpecDir, SpecVersion};
use serde::Serialize;

use crate::args::SpecDirs;
use crate::outcome::{Failure, Outcome};

/// What to do if a device is not found because a file cannot be read.
pub(crate) const UNKNOWN_HINT: &str =
    "run cdi-gen as root, like the runtimes: a file that only root can read may define the device";

/// [`SpecDirs`], with an open root.
pub(crate) struct HostSpecs {
    pub(crate) host: Host,
    /// Paths on the host, as given.
    dirs: Vec<PathBuf>,
}

/// The version that a spec declares, and the lowest that its fields need.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionReport {
    declared: SpecVersion,
    needed: SpecVersion,
}

/// The host with its root directory at `root`.
pub(crate) fn open_host(root: &Path) -> Result<Host, Failure> {
    Host::open(root).map_err(|error| {
        Failure::new(Outcome::Io, error_chain(&error))
            .hint("pass the mount point of the host's root with --root")
    })
}

/// Its path, and whether it exists.
pub(crate) fn describe_dir(dir: &SpecDir) -> String {
    let path = dir.path.display();
    match dir.state {
        DirState::Absent => format!("{path} (does not exist)"),
        DirState::Listed | DirState::Skipped(_) => path.to_string(),
    }
}

/// The directories, then the files, that this process may not read. Each may define any device.
pub(crate) fn denied(registry: &Registry) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let is_denied = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
    let dirs = registry
        .dirs()
        .iter()
        .filter_map(move |dir| match &dir.state {
            DirState::Skipped(error @ DirError::Unlistable { source, .. }) if is_denied(source) => {
                Some(error as &(dyn Error + 'static))
            }
            _ => None,
        });
    let files = registry.files().iter();
    let files = files.filter_map(move |file| match &file.spec {
        Err(error @ LoadError::Read { source, .. }) if is_denied(source) => {
            Some(error as &(dyn Error + 'static))
        }
        _ => None,
    });
    dirs.chain(files)
}

// === impl HostSpecs ===

impl HostSpecs {
    pub(crate) fn open(args: &SpecDirs) -> Result<Self, Failure> {
        Ok(Self {
            host: open_host(&args.root)?,
            dirs: args.dirs.clone(),
        })
    }

    /// Returns an error if the root is empty: such a host would seem healthy.
    pub(crate) fn check_root(&self) -> Result<(), Failure> {
        let root = self.host.root();
        if fs::read_dir(root).into_iter().flatten().next().is_some() {
            return Ok(());
        }
        let message = format!("the root {} is empty", root.display());
        Err(Failure::new(Outcome::Io, message).hint(
            "the host's root is not mounted at this path: check --root and the mounts of the debug pod",
        ))
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry::load(&self.dirs())
    }

    /// The directories, below the root, lowest priority first.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| self.host.resolve(dir)).collect()
    }

    /// Returns an error if a --spec-dir does not exist: it is misspelt, or on another host. A
    /// missing default directory is treated as empty.
    pub(crate) fn check_dirs(&self) -> Result<(), Failure> {
        let defaults = DEFAULT_DIRS.map(Path::new);
        let named = self
            .dirs
            .iter()
            .filter(|dir| !defaults.contains(&dir.as_path()));
        for path in named.map(|dir| self.host.resolve(dir)) {
            if let Err(error) = path.symlink_metadata()
                && error.kind() == ErrorKind::NotFound
            {
                let what = format!("cannot list the spec directory {}", path.display());
                return Err(Failure::caused_by(Outcome::Io, what, &error)
                    .hint("check --spec-dir and --root"));
            }
        }
        Ok(())
    }
}

// === impl VersionReport ===

impl VersionReport {
    pub(crate) fn new(spec: &Spec) -> Self {
        Self {
            declared: spec.version(),
            needed: spec.needed_version(),
        }
    }
}

impl fmt::Display for VersionReport {
    /// One number if both are the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declared, needed } = self;
        f.write_str(declared.as_str())?;
        if declared != needed {
            write!(f, " (needs {needed})")?;
        }
        Ok(())
    }
}
