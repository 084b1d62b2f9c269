//! The hook's errors.

use std::io;
use std::path::{Path, PathBuf};

use dra_common::{Advice, OneLine};

/// Why the container must not start. The message names the file and the reason.
#[derive(Debug, thiserror::Error, Advice)]
pub(crate) enum HookError {
    /// The arguments are not valid.
    #[error("{}", OneLine(_0))]
    #[advice(
        code = "hook-usage",
        hint = "run `nvidia-cdi-hook --help` and correct the hook's args in the CDI spec"
    )]
    Usage(String),
    /// The container's state, which the runtime writes to the hook's standard input, is unreadable.
    #[error(
        "cannot read the container's state from {}: {}",
        OneLine(source_name),
        OneLine(reason)
    )]
    #[advice(
        code = "hook-state",
        hint = "run this program as a createContainer hook: the runtime writes the OCI state to its standard input"
    )]
    State {
        /// `standard input`, or a path.
        source_name: String,
        reason: String,
    },
    /// The bundle's `config.json`, or the root that it names, is unreadable.
    #[error("cannot read {}: {}", OneLine(path.display()), OneLine(reason))]
    #[advice(
        code = "hook-bundle",
        hint = "check the bundle directory of the OCI state, and that the hook may read its config.json and root"
    )]
    Bundle { path: PathBuf, reason: String },
    /// The state describes no container, but the host.
    #[error("the container's root is \"{}\"", OneLine(_0.display()))]
    #[advice(
        code = "hook-root",
        hint = "check root.path in the bundle's config.json: it must not be empty or the host's root"
    )]
    NoRoot(PathBuf),
    /// A file of the container could not be read, created or mounted.
    #[error("cannot {action} {} in the container: {source}", OneLine(path.display()))]
    #[advice(code = "hook-file", hint = file_hint(source))]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The host has no `ldconfig`.
    #[error("no ldconfig on the host: {}: {}", OneLine(path.display()), OneLine(reason))]
    #[advice(
        code = "hook-no-ldconfig",
        hint = "install ldconfig on the host, or pass the path of a statically linked one with --ldconfig-path"
    )]
    NoLdconfig { path: PathBuf, reason: String },
    /// A namespace or mount that keeps `ldconfig` away from the host could not be made.
    #[error("cannot {action} for ldconfig: {source}")]
    #[advice(
        code = "hook-isolation",
        hint = "let the container runtime run hooks with CAP_SYS_ADMIN in the container's user namespace"
    )]
    Isolation {
        action: &'static str,
        source: io::Error,
    },
    /// `ldconfig` failed.
    #[error("ldconfig failed in the container: {}", OneLine(_0))]
    #[advice(
        code = "hook-ldconfig",
        hint = "check that hooks may make namespaces and mounts, that the image's root is writable, and the image's /etc/ld.so.conf"
    )]
    Ldconfig(String),
    /// `ldconfig` did not end in time.
    #[error("ldconfig did not end within {seconds} s in the container's root {}", OneLine(root.display()))]
    #[advice(
        code = "hook-ldconfig-timeout",
        hint = "check that the image's /etc/ld.so.conf and the files that it includes are neither named pipes nor endless; if only the image's storage is slow, pass a longer --ldconfig-timeout"
    )]
    LdconfigTimeout { root: PathBuf, seconds: u64 },
}

fn file_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "let the container's root be writable until it starts: on a read-only file system the driver's links and the loader's cache must be part of the image"
        }
        io::ErrorKind::StorageFull => "free space for the container's root file system",
        io::ErrorKind::PermissionDenied => {
            "let the hook run as root of the container's user namespace; check SELinux and AppArmor"
        }
        _ => "check the path in the image: a link there may lead nowhere or in a circle",
    }
}

// === impl HookError ===

impl HookError {
    /// For `map_err` where a file was used.
    pub(crate) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// For `map_err` where `ldconfig` is isolated.
    pub(crate) fn isolating<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Isolation {
            action,
            source: source.into(),
        }
    }
}
