//! What to do about a damaged file, which depends on who has dealt with it.

use std::path::Path;

use compute_domain_node::Group;
use dra_checkpoint::{Damaged, SETTLED_MARK, Survivors, UNSETTLED_MARK};

/// Whose turn it is, as far as the file's name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No plugin has seen the damage yet, or this is a copy.
    InUse,
    /// A plugin has renamed it and makes up for the loss.
    SetAside,
    /// A plugin has made up for it.
    Settled,
}

/// What to do about it.
pub(super) fn fix(path: &Path, damaged: &Damaged<Group>) -> &'static str {
    match (Place::of(path), damaged.survivors) {
        (Place::InUse, Survivors::All) => {
            "keep the file: the plugin sets it aside at its next start or commit, and goes on with every claim in it"
        }
        (Place::InUse, _) => damaged.hint(),
        (Place::SetAside, Survivors::All) => {
            "keep the file: the plugin has set it aside and goes on with every claim in it; it renames the file to .settled- when it has looked after them"
        }
        (Place::SetAside, _) => {
            "keep the file: the plugin has set it aside, and renames it to .settled- when it has rebuilt what is missing from the API server; if it is deleted before, what is missing counts as free"
        }
        (Place::Settled, _) => {
            "there is nothing to do: the plugin has made up for the damage, and keeps the file for whoever looks into it"
        }
    }
}

// === impl Place ===

impl Place {
    fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(UNSETTLED_MARK) {
            Self::SetAside
        } else if name.contains(SETTLED_MARK) {
            Self::Settled
        } else {
            Self::InUse
        }
    }
}
