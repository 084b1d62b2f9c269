//! What this process must not read of a host's specs: it may define any device.

use std::error::Error;
use std::io::{self, ErrorKind};

use imex_cdi::{DirError, DirState, LoadError, Registry};

/// What to do if a device is not found because of that.
pub(crate) const UNKNOWN_HINT: &str =
    "run this as root, as runtimes do: a file that cannot be read may define the device";

/// The directories, then the files.
pub(crate) fn denied(registry: &Registry) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let dirs = registry.dirs().iter().filter_map(|dir| match &dir.state {
        DirState::Skipped(error @ DirError::Unlistable { source, .. }) if is_denied(source) => {
            Some(error as &(dyn Error + 'static))
        }
        _ => None,
    });
    let files = registry.files().iter().filter_map(|file| match &file.spec {
        Err(error @ LoadError::Read { source, .. }) if is_denied(source) => {
            Some(error as &(dyn Error + 'static))
        }
        _ => None,
    });
    dirs.chain(files)
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}
