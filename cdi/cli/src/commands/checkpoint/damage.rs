//! The fix for a damaged checkpoint.

use std::path::Path;

use compute_domain_node::DeviceGroup;
use dra_checkpoint::{DAMAGED_MARK, Damaged, SETTLED_MARK, Survivors};

/// Returns the fix. The file's name shows how far the plugin has recovered from the damage.
pub(super) fn fix(path: &Path, damaged: &Damaged<DeviceGroup>) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let all_survive = damaged.survivors == Survivors::All;
    if name.contains(DAMAGED_MARK) && all_survive {
        "keep the file: the plugin has set it aside and keeps using every claim in it; after recovery it renames the file to .settled-"
    } else if name.contains(DAMAGED_MARK) {
        "keep the file: the plugin has set it aside, rebuilds the missing records from the API server and then renames the file to .settled-; if you delete it earlier, devices of missing records count as free"
    } else if name.contains(SETTLED_MARK) {
        "nothing to do: the plugin has recovered from the damage, and keeps the file for later analysis"
    } else if all_survive {
        "keep the file: the plugin sets it aside at its next start or commit, and keeps using every claim in it"
    } else {
        damaged.hint()
    }
}
