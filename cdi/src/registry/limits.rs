//! Limits for reading the directories.

use dra_common::Advice;

/// How much [`Registry::load_within`](super::Registry::load_within) reads. One file more may be
/// read, which is never longer than [`MAX_SPEC_LEN`](crate::MAX_SPEC_LEN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadLimits {
    /// Spec files, of all directories together.
    pub files: usize,
    /// Bytes of their text, together.
    pub bytes: usize,
}

/// The directories have more than may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Advice)]
#[error(
    "the CDI directories have more than {} spec files or {} bytes",
    limits.files,
    limits.bytes
)]
#[non_exhaustive]
#[advice(
    code = "cdi-specs-too-many",
    hint = "find out which program writes these files, and remove the specs of devices that no longer exist"
)]
pub struct LimitExceeded {
    /// The limits.
    pub limits: LoadLimits,
}

/// What may still be read.
pub(super) struct Budget {
    left: Option<LoadLimits>,
}

// === impl Budget ===

impl Budget {
    pub(super) fn of(limits: LoadLimits) -> Self {
        Self { left: Some(limits) }
    }

    pub(super) fn unlimited() -> Self {
        Self {
            left: Some(LoadLimits {
                files: usize::MAX,
                bytes: usize::MAX,
            }),
        }
    }

    /// Counts a file of this length.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.left = self.left.and_then(|left| {
            Some(LoadLimits {
                files: left.files.checked_sub(1)?,
                bytes: left.bytes.checked_sub(bytes)?,
            })
        });
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.left.is_none()
    }
}
