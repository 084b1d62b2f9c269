//! What is wrong with a damaged file, and what to do about it.

use std::path::Path;

use compute_domain_node::DeviceGroup;
use dra_checkpoint::{DAMAGED_MARK, Damaged, SETTLED_MARK, Survivors};

/// How far a plugin has dealt with the damage, by the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not at all, or the file is a copy.
    InUse,
    /// It has set the file aside and is recovering.
    SetAside,
    /// It has recovered.
    Settled,
}

/// What to do about it.
pub(super) fn fix(path: &Path, damaged: &Damaged<DeviceGroup>) -> &'static str {
    match (Progress::from_name(path), damaged.survivors) {
        (Progress::InUse, Survivors::All) => {
            "keep the file: the plugin sets it aside at its next start or commit, and goes on with every claim in it"
        }
        (Progress::InUse, _) => damaged.hint(),
        (Progress::SetAside, Survivors::All) => {
            "keep the file: the plugin has set it aside and goes on with every claim in it; it renames the file to .settled- when it has recovered"
        }
        (Progress::SetAside, _) => {
            "keep the file: the plugin has set it aside, and renames it to .settled- when it has rebuilt what is missing from the API server; if the file is deleted before that, what is missing counts as free"
        }
        (Progress::Settled, _) => {
            "nothing to do: the plugin has recovered from the damage, and keeps the file for later analysis"
        }
    }
}

// === impl Progress ===

impl Progress {
    fn from_name(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(DAMAGED_MARK) {
            Self::SetAside
        } else if name.contains(SETTLED_MARK) {
            Self::Settled
        } else {
            Self::InUse
        }
    }
}
