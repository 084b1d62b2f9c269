//! Whether claims share the node's device: a file beside the checkpoint tells.

use std::io;

use compute_domain_node::SharedMarker;

use super::checkpoint_file::Unusable;
use crate::files::HostFiles;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedDevice {
    /// There is none: one claim has the device at a time.
    No,
    /// It is, or it was and somebody may still have it.
    Shared(SharedMarker),
    /// The file cannot be used, by the plugin neither.
    Unusable(Unusable),
    /// This process may not see whether there is a file.
    Unknown,
}

// === impl SharedDevice ===

impl SharedDevice {
    pub(super) fn read(files: &HostFiles, path: &str) -> Self {
        match files.read(path) {
            Ok(Some(content)) => Self::Shared(SharedMarker::decode(&content)),
            Ok(None) => Self::No,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::Unknown,
            Err(error) => Self::Unusable(Unusable::from_refusal(&error)),
        }
    }
}
