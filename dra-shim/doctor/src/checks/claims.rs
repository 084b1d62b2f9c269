//! Checks that the checkpoint of each driver's plugin, the CDI directories and kubelet agree on the
//! node's claims.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `checkpoint-unreadable`, `kubelet-state-unreadable` | warning | this process may not read it |
//! | `checkpoint-damaged` | error | its checksum or content is wrong |
//! | `plugin-not-registered` | error, or info | the plugin was here, but kubelet has no socket of it; an info if only its directory is left |
//! | `plugin-not-listening` | error | it has a socket, but no process listens on it |
//! | `checkpoint-set-aside` | warning | the plugin is recovering from a damaged one |
//! | `aborted-claims-lost` | info | the GPU plugin's file of aborted claims is damaged |
//! | `checkpoint-of-earlier-boot` | warning, or info without records | the plugin has not run since the host booted |
//! | `kubelet-state-damaged` | error | kubelet cannot start with it |
//! | `kubelet-state-unknown` | warning | its version is unknown |
//! | `claim-without-spec` | error | prepared, but without a CDI spec |
//! | `claim-unknown-to-plugin` | error | prepared according to kubelet, but not to the plugin |
//! | `claim-unknown-to-kubelet` | warning | prepared according to the plugin, but not to kubelet |
//! | `channel-of-two-owners` | error | claims of two owners are prepared with one channel; for channel 0, only without shares of the device |
//! | `gpu-of-two-claims` | error | claims are prepared with one GPU or MIG device, without adminAccess or shares |
//! | `gpu-of-claim-gone` | warning | a prepared claim holds a GPU or MIG device that the driver does not list, or a GPU that is in MIG mode now |
//! | `gpu-change-left` | warning | a claim has ended, but a time slice that it has set is not undone |
//! | `device-plugin-beside-dra` | warning | NVIDIA's device plugin serves GPUs on a node with the GPU plugin |
//! | `spec-of-another-channel` | error | it opens another channel than its claim's record has |
//! | `device-shared` | info | several claims may hold the device, or may still hold it |
//! | `device-sharing-dropped` | info | several claims may hold it, but the API server does not store that |
//! | `device-marker-unusable` | error | the plugin's marker file for sharing is not a regular file, or cannot be read |
//! | `spec-without-claim` | warning | neither the checkpoint nor kubelet has the spec's claim |
//! | `plugin-directory-absent`, `checkpoint-absent` | warning | there are specs of claims, but no records: kubelet may have another root directory |

mod channels;
mod compare;
mod gpus;

use std::collections::BTreeMap;
use std::path::Path;

use compute_domain_api::names::channel_device_name;
use gpu_inventory::Inventory;

use crate::diagnosis::AreaReport;
use crate::facts::claims::checkpoint_file::{
    CheckpointFacts, CheckpointFile, RecordFacts, SharedDevice,
};
use crate::facts::claims::kubelet_root::KubeletRootFacts;
use crate::facts::claims::{ClaimFacts, KubeletStateFile};
use crate::facts::specs::SpecFacts;
use crate::finding::{Finding, Severity};
use crate::options::Invocation;
use crate::text::{and_more, counted, shell_quote};

const DIRECTORY_ABSENT: &str = "plugin-directory-absent";

const FIND_WHY_STOPPED: &str = "find out why the plugin is not running on this node: kubectl get pods -A -o wide | grep kubelet-plugin; if the plugin is running, its /readyz and the node's events show what the plugin is waiting for";

pub(super) fn check(
    drivers: &[ClaimFacts],
    specs: &SpecFacts,
    inventory: &Inventory,
    invocation: &Invocation,
) -> AreaReport {
    let mut findings: Vec<Finding> = Vec::new();
    for facts in drivers {
        for finding in findings_of(facts, specs, inventory, invocation) {
            let is_repeated = |it: &Finding| {
                // The drivers have kubelet's root directory and its state in common.
                *it == finding || (it.id == DIRECTORY_ABSENT && finding.id == it.id)
            };
            if !findings.iter().any(is_repeated) {
                findings.push(finding);
            }
        }
    }
    let root = drivers.first().map(|facts| &facts.root);
    match root.filter(|root| findings.is_empty() && !root.exists) {
        Some(root) => AreaReport::skipped(no_kubelet(root)),
        None => AreaReport::new(summary(drivers), findings),
    }
}

fn findings_of(
    facts: &ClaimFacts,
    specs: &SpecFacts,
    inventory: &Inventory,
    invocation: &Invocation,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(check_checkpoint(facts));
    findings.extend(check_registration(facts));
    findings.extend(check_sockets(facts));
    findings.extend(set_aside(facts));
    findings.extend(aborted_lost(facts));
    findings.extend(check_boot(facts));
    findings.extend(check_sharing(facts));
    findings.extend(check_kubelet_state(facts));
    findings.extend(compare::check(facts));
    findings.extend(channels::check(facts, specs));
    findings.extend(gpus::check(facts, inventory));
    findings.extend(check_kubelet_root(facts, invocation));
    findings
}

/// The driver's name is left out if there is only one.
fn summary(drivers: &[ClaimFacts]) -> String {
    if let [facts] = drivers {
        return claim_counts(facts);
    }
    let counts = drivers.iter();
    let counts = counts.map(|it| format!("{}: {}", it.driver().name(), claim_counts(it)));
    counts.collect::<Vec<_>>().join("; ")
}

/// The number of claims in each of the three places, `-` if unknown, and the channels that
/// they open.
fn claim_counts(facts: &ClaimFacts) -> String {
    let count = |number: Option<usize>| match number {
        Some(number) => number.to_string(),
        None => "-".to_owned(),
    };
    let more = if facts.specs.is_incomplete {
        " or more"
    } else {
        ""
    };
    let channels = channels::summary(facts).map_or_else(String::new, |it| format!("; {it}"));
    format!(
        "{} in the checkpoint, {}{more} with a spec, {} known to kubelet{channels}",
        count(facts.records().map(BTreeMap::len)),
        facts.specs.paths.len(),
        count(facts.kubelet_state().map(|state| state.claims.len()))
    )
}

/// While the checkpoint is damaged, the plugin prepares no claims: it must first recover the
/// lost records.
fn check_checkpoint(facts: &ClaimFacts) -> Option<Finding> {
    let file = facts.root.checkpoint();
    match &facts.checkpoint {
        CheckpointFile::Read(CheckpointFacts { damage, .. }) => {
            let damage = damage.as_ref()?;
            let (evidence, fix) = (&damage.reason, &damage.hint);
            Some(Finding::error("checkpoint-damaged", file, evidence, fix))
        }
        CheckpointFile::Absent => None,
        CheckpointFile::Unreadable(refused) => Some(Finding::warning(
            "checkpoint-unreadable",
            file,
            &refused.reason,
            &refused.hint,
        )),
    }
}

/// A running plugin has a registration socket.
fn check_registration(facts: &ClaimFacts) -> Option<Finding> {
    let (id, registry) = ("plugin-not-registered", facts.root.plugin_registry());
    let driver = facts.driver().name();
    if facts.is_uninstalled() {
        let dir = facts.root.plugin_dir();
        return Some(Finding::info(
            id,
            registry,
            format!(
                "this directory has no socket of {driver}; {dir} exists, but this node has no claim, process or pod of the plugin"
            ),
            format!(
                "if the plugin was uninstalled: rm -r {}; otherwise {FIND_WHY_STOPPED}",
                shell_quote(&dir)
            ),
        ));
    }
    let was_here = facts.root.has_plugin == Some(true);
    (was_here && facts.is_registered == Some(false)).then(|| {
        Finding::error(
            id,
            registry,
            format!("this directory has no socket of {driver}: kubelet cannot reach the plugin"),
            FIND_WHY_STOPPED,
        )
    })
}

/// kubelet finds the socket, but its connection is refused.
fn check_sockets(facts: &ClaimFacts) -> Option<Finding> {
    let (first, others) = facts.stale_sockets.split_first()?;
    let more = and_more(others.len());
    Some(Finding::error(
        "plugin-not-listening",
        first,
        format!(
            "no process listens on this socket{more}: the process that created the socket has exited, and kubelet cannot reach the plugin"
        ),
        FIND_WHY_STOPPED,
    ))
}

fn set_aside(facts: &ClaimFacts) -> impl Iterator<Item = Finding> {
    let plugin = facts.root.plugin_dir();
    facts.set_aside.iter().map(move |name| {
        Finding::warning(
            "checkpoint-set-aside",
            format!("{plugin}/{name}"),
            "the plugin found this file damaged and has not yet recovered the lost records",
            "keep this file; the plugin's log shows what the recovery is waiting for (usually the API server)",
        )
    })
}

/// The plugin renames a damaged file when it next reads it. The file stays.
fn aborted_lost(facts: &ClaimFacts) -> impl Iterator<Item = Finding> {
    let plugin = facts.root.plugin_dir();
    let renamed = facts.aborted_set_aside.iter();
    let renamed = renamed.map(move |name| (format!("{plugin}/{name}"), "this file is damaged"));
    let current = match &facts.checkpoint {
        CheckpointFile::Read(checkpoint) => checkpoint.aborted_damage.as_ref(),
        CheckpointFile::Absent | CheckpointFile::Unreadable(_) => None,
    };
    let current = current.map(|it| (facts.root.aborted_file(), it.reason.as_str()));
    current.into_iter().chain(renamed).map(|(file, reason)| {
        Finding::info(
            "aborted-claims-lost",
            file,
            format!("{reason}: for up to 90 s, the plugin does not refuse late attempts to prepare the aborted claims in it; no device depends on this file"),
            "none needed; a file that the plugin has renamed may be deleted",
        )
    })
}

/// Devices and CDI specs in `/var/run/cdi` do not survive a reboot, so claims of an earlier
/// boot are not prepared, whatever their records say.
fn check_boot(facts: &ClaimFacts) -> Option<Finding> {
    // A plugin without claims has nothing to prepare again.
    let has_records = facts.records().is_some_and(|records| !records.is_empty());
    facts.earlier_boot().map(|(recorded, current)| {
        Finding::new(
            Severity::for_claims(has_records),
            "checkpoint-of-earlier-boot",
            facts.root.checkpoint(),
            format!(
                "this file is from boot {recorded}, but the host's current boot is {current}: no claim has been prepared since the reboot"
            ),
            "start the kubelet plugin on this node, which then prepares the claims again",
        )
    })
}

/// A file of another version is not damaged: a newer kubelet may have written it.
fn check_kubelet_state(facts: &ClaimFacts) -> Option<Finding> {
    let file = facts.root.kubelet_state();
    match &facts.kubelet {
        KubeletStateFile::Read(_) | KubeletStateFile::Absent => None,
        KubeletStateFile::Unreadable(refused) => Some(Finding::warning(
            "kubelet-state-unreadable",
            file,
            &refused.reason,
            &refused.hint,
        )),
        KubeletStateFile::Damaged(reason) => Some(
            Finding::error(
                "kubelet-state-damaged",
                file,
                reason,
                "kubelet does not start with this file: drain the node, remove the file, and start kubelet",
            )
            .quoting(),
        ),
        KubeletStateFile::Unknown(reason) => Some(
            Finding::warning(
                "kubelet-state-unknown",
                file,
                format!("{reason}: another version of kubelet may have written this file"),
                "leave the file as it is; doctor reads only the files of kubelet 1.34 and newer, so it does not compare claims with this file",
            )
            .quoting(),
        ),
    }
}

/// Whether claims share the node's device, according to the plugin's marker file.
fn check_sharing(facts: &ClaimFacts) -> Option<Finding> {
    let file = facts.root.shared_marker();
    match &facts.sharing {
        // This process may not read the checkpoint either, which has a finding.
        SharedDevice::Unknown => None,
        SharedDevice::No => shared_without_marker(facts),
        SharedDevice::Shared(marker) if marker.is_dropped => Some(Finding::info(
            "device-sharing-dropped",
            file,
            "the plugin publishes the device as one that many claims can share, but the API server does not store this setting: only one claim at a time gets the device",
            "enable the API server's feature gate DRAConsumableCapacity (on by default since \
             Kubernetes 1.36) and restart the kubelet plugin, or set imex.sharing=one",
        )),
        SharedDevice::Shared(_) => Some(Finding::info(
            "device-shared",
            file,
            format!(
                "the plugin publishes the device, or has published it, as a device that many claims can share; on this node, {}",
                holders(facts)
            ),
            "leave the file in place. After a change to imex.sharing=one, the plugin removes the \
             file when no claim has the device; until then, new claims wait",
        )),
        SharedDevice::Unusable(failed) => Some(Finding::error(
            "device-marker-unusable",
            file,
            format!(
                "{}: the plugin publishes no device until it can read or write this file",
                failed.reason
            ),
            format!(
                "{}; the path must be a regular file; if the file does not exist, the plugin creates it",
                failed.hint
            ),
        )),
    }
}

/// The plugin finds the shares in the records and rewrites the file, also in place of a dangling
/// link.
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
        format!("this file does not exist, but {have} of the device"),
        "none needed: the plugin writes the file again, within a minute if it runs with imex.sharing=many, otherwise at its next start",
    ))
}

/// `2 claims have the device`.
fn holders(facts: &ClaimFacts) -> String {
    let device = channel_device_name(0);
    let has_it = |record: &&RecordFacts| record.channels.iter().any(|it| it.device == device);
    let records = facts.records().into_iter().flat_map(|it| it.values());
    match records.filter(has_it).count() {
        1 => "1 claim has the device".to_owned(),
        count => format!("{} have the device", counted(count, "claim")),
    }
}

/// Specs of claims without the plugin's records: kubelet may have another root directory.
/// If kubelet's state has claims, its root is the right one, and `compare` checks the claims.
fn check_kubelet_root(facts: &ClaimFacts, invocation: &Invocation) -> Option<Finding> {
    let path = facts.specs.paths.values().next()?;
    // The checkpoint is absent because it was set aside.
    if !facts.set_aside.is_empty() {
        return None;
    }
    let kubelet = facts.kubelet_state();
    if kubelet.is_some_and(|state| !state.claims.is_empty()) {
        return None;
    }
    let seen = match facts.specs.paths.len() {
        1 => format!("{path} is the CDI spec of a claim"),
        n => format!("{path} and {} more files are CDI specs of claims", n - 1),
    };
    if facts.root.has_plugin == Some(false) {
        return Some(plugin_dir_absent(&facts.root, &seen, invocation));
    }
    (facts.checkpoint == CheckpointFile::Absent).then(|| {
        Finding::warning(
            "checkpoint-absent",
            facts.root.checkpoint(),
            format!(
                "this file does not exist, but {seen}: doctor cannot tell which claims still exist"
            ),
            "start the kubelet plugin on this node, which reconciles its records with the specs",
        )
    })
}

/// If there is another root directory, the fix is to run the doctor with it.
fn plugin_dir_absent(root: &KubeletRootFacts, seen: &str, invocation: &Invocation) -> Finding {
    let evidence = format!(
        "this directory does not exist, but {seen}: doctor cannot tell which claims still exist"
    );
    let (evidence, fix) = match &root.other {
        Some(other) => (
            format!("{evidence}; {} exists", other.evidence),
            invocation.doctor(Path::new(&other.path)),
        ),
        None => (
            evidence,
            "set --kubelet-root to kubelet's root directory (kubelet's --root-dir); if \
             --kubelet-root is already correct, start the kubelet plugin on this node"
                .to_owned(),
        ),
    };
    Finding::warning(DIRECTORY_ABSENT, root.plugin_dir(), evidence, fix)
}

/// The summary of a host without a trace of kubelet.
fn no_kubelet(root: &KubeletRootFacts) -> String {
    let path = &root.path;
    match &root.other {
        Some(other) => format!(
            "no kubelet in {path}; {} exists (set --kubelet-root)",
            other.path
        ),
        None => format!("no kubelet in {path}"),
    }
}

#[cfg(test)]
mod tests;
