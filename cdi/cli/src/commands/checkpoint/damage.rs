//! What is wrong with a damaged file, and what to do about it.

use std::path::Path;

use compute_domain_node::DeviceGroup;
use dra_checkpoint::{DAMAGED_MARK, Damaged, SETTLED_MARK, Survivors};

/// What to do about it: the file's name says how far a plugin has dealt with the damage.
pub(super) fn fix(path: &Path, damaged: &Damaged<DeviceGroup>) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let all_survive = damaged.survivors == Survivors::All;
    if name.contains(DAMAGED_MARK) && all_survive {
        "keep the file: the plugin has set it aside and goes on with every claim in it; it renames the file to .settled- when it has recovered"
    } else if name.contains(DAMAGED_MARK) {
        "keep the file: the plugin has set it aside, and renames it to .settled- when it has rebuilt what is missing from the API server; if the file is deleted before that, what is missing counts as free"
    } else if name.contains(SETTLED_MARK) {
        "nothing to do: the plugin has recovered from the damage, and keeps the file for later analysis"
    } else if all_survive {
        "keep the file: the plugin sets it aside at its next start or commit, and goes on with every claim in it"
    } else {
        damaged.hint()
    }
}
