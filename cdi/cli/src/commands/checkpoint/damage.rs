//! The fix for a damaged checkpoint, by its name.

use std::path::Path;

use dra_checkpoint::{ABORTED_FILE, DAMAGED_MARK, Damaged, SETTLED_MARK, Survivors};

/// The fix for a damaged file of aborted claims.
pub(super) const ABORTED_FIX: &str =
    "nothing to do: no device depends on this file, and the plugin renames it";

/// Whether the file has this name, perhaps with a mark of damage.
pub(super) fn has_name(path: &Path, name: &str) -> bool {
    let found = path.file_name().unwrap_or_default();
    found.as_encoded_bytes().starts_with(name.as_bytes())
}

/// Returns the fix. The file's name shows how far the plugin has recovered from the damage.
pub(super) fn fix<P>(path: &Path, damaged: &Damaged<P>) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let all_survive = damaged.survivors == Survivors::All;
    if has_name(path, ABORTED_FILE) {
        ABORTED_FIX
    } else if name.contains(DAMAGED_MARK) && all_survive {
        "keep this file until the plugin has replaced .damaged- with .settled- in its name; until then, the plugin continues to use every claim in the file"
    } else if name.contains(DAMAGED_MARK) {
        "keep this file until the plugin renames it from .damaged- to .settled-: the plugin is rebuilding the missing records from the API server. Without the file, devices of missing records count as free"
    } else if name.contains(SETTLED_MARK) {
        "nothing to do: the plugin has recovered from the damage, and keeps the file for later analysis"
    } else if all_survive {
        "keep this file: the plugin sets the file aside at the next start or commit, and continues to use every claim in it"
    } else {
        damaged.hint()
    }
}
