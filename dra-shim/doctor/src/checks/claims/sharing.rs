//! Whether claims share the node's device, as the plugin has noted.

use compute_domain_api::names;

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::RecordFacts;
use crate::facts::claims::shared_device::SharedDevice;
use crate::finding::Finding;
use crate::text::counted;

pub(super) fn check(facts: &ClaimFacts) -> Option<Finding> {
    let file = facts.root.shared_marker();
    match &facts.sharing {
        // What this process may not see, the checkpoint's finding is about.
        SharedDevice::Unknown => None,
        SharedDevice::No => shared_without_marker(facts),
        SharedDevice::Shared(marker) if marker.is_dropped => Some(Finding::info(
            "device-sharing-dropped",
            file,
            "the plugin publishes the device for many claims, and saw that the API server does not \
             store that: one claim has it at a time",
            "turn on the API server's feature gate DRAConsumableCapacity (by default it is on from \
             Kubernetes 1.36 on) and restart the kubelet plugin, or set imex.sharing=one",
        )),
        SharedDevice::Shared(_) => Some(Finding::info(
            "device-shared",
            file,
            format!(
                "the device is published for many claims, or was: {} here",
                holders(facts)
            ),
            "leave it: after a change to imex.sharing=one the plugin keeps new claims away, and \
             removes the file when nobody has the device any more",
        )),
        SharedDevice::Unusable(failed) => Some(Finding::error(
            "device-marker-unusable",
            file,
            format!(
                "{}: the plugin publishes no device before it can read or write it",
                failed.reason
            ),
            format!(
                "{}; a regular file belongs there, or nothing: the plugin writes it",
                failed.hint
            ),
        )),
    }
}

/// The plugin finds the shares in the records and writes the file again, also in place of a link to
/// nothing.
fn shared_without_marker(facts: &ClaimFacts) -> Option<Finding> {
    let records = facts.records().into_iter().flat_map(|it| it.values());
    let have = match records.filter(|record| record.has_share).count() {
        0 => return None,
        1 => "1 claim has a share".to_owned(),
        count => format!("{} have shares", counted(count, "claim")),
    };
    Some(Finding::info(
        "device-shared",
        facts.root.shared_marker(),
        format!("there is no such file, though {have} of the device"),
        "leave it: a plugin that runs with imex.sharing=many writes it again within a minute, and \
         any plugin when it starts",
    ))
}

/// `2 claims have it`.
fn holders(facts: &ClaimFacts) -> String {
    let device = names::channel_device_name(0);
    let has_it = |record: &&RecordFacts| record.channels.iter().any(|it| it.device == device);
    let records = facts.records().into_iter().flat_map(|it| it.values());
    match records.filter(has_it).count() {
        1 => "1 claim has it".to_owned(),
        count => format!("{} have it", counted(count, "claim")),
    }
}
