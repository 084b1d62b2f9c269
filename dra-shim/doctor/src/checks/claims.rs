//! Whether the plugin's checkpoint, the CDI directories and kubelet agree on the
//! node's claims.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `checkpoint-unreadable`, `kubelet-state-unreadable` | warning | this process may not read it |
//! | `checkpoint-damaged` | error | its checksum or content is wrong |
//! | `plugin-not-registered` | error, or info | the plugin has been here, and kubelet has no socket of it; an information if only its directory is left |
//! | `plugin-not-listening` | error | it has a socket, and no process listens on it |
//! | `checkpoint-set-aside` | warning | the plugin is recovering from a damaged one |
//! | `checkpoint-of-earlier-boot` | warning, or info without records | the plugin has not run since the host booted |
//! | `kubelet-state-damaged` | error | kubelet cannot start with it |
//! | `kubelet-state-unknown` | warning | it is of a version that is not known |
//! | `claim-without-spec` | error | prepared, and without a CDI spec |
//! | `claim-unknown-to-plugin` | error | kubelet has it as prepared, the plugin does not |
//! | `claim-unknown-to-kubelet` | warning | the plugin has it as prepared, kubelet does not |
//! | `channel-of-two-owners` | error | claims of two domains are prepared with one channel other than 0 |
//! | `spec-of-another-channel` | error | it opens another channel than its claim's record says |
//! | `device-shared` | info | many claims may have the device, or could and it is not over |
//! | `device-sharing-dropped` | info | they may, and the API server does not store that |
//! | `device-marker-unusable` | error | the plugin's file that tells it is something else, or cannot be read |
//! | `spec-without-claim` | warning | a spec whose claim neither has |
//! | `plugin-directory-absent`, `checkpoint-absent` | warning | there are specs of claims, and no records: kubelet may have another root directory |

mod channels;
mod compare;

use std::collections::BTreeMap;
use std::path::Path;

use compute_domain_api::names::{DRIVER_NAME, channel_device_name};

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

const SEE_WHY_NOT: &str = "kubectl get pods -A -o wide | grep compute-domain: see why the plugin does not run on this node; of one that runs, /readyz and the node's events say what it waits for";

pub(super) fn check(facts: &ClaimFacts, specs: &SpecFacts, invocation: &Invocation) -> AreaReport {
    let mut findings = Vec::new();
    findings.extend(check_checkpoint(facts));
    findings.extend(check_registration(facts));
    findings.extend(check_sockets(facts));
    findings.extend(set_aside(facts));
    findings.extend(check_boot(facts));
    findings.extend(check_sharing(facts));
    findings.extend(check_kubelet_state(facts));
    findings.extend(compare::check(facts));
    findings.extend(channels::check(facts, specs));
    findings.extend(check_kubelet_root(facts, invocation));
    if findings.is_empty() && !facts.root.exists {
        return AreaReport::skipped(no_kubelet(&facts.root));
    }
    AreaReport::new(summary(facts), findings)
}

/// How many claims each of the three places has, `-` where that is not known, and which
/// channels they open.
fn summary(facts: &ClaimFacts) -> String {
    let count = |number: Option<usize>| match number {
        Some(number) => number.to_string(),
        None => "-".to_owned(),
    };
    let more = if facts.specs.may_have_more {
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

/// While it is damaged the plugin prepares no claim: it first has to recover what
/// was lost.
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

/// A plugin that has been here has a registration socket while it runs.
fn check_registration(facts: &ClaimFacts) -> Option<Finding> {
    let (id, registry) = ("plugin-not-registered", facts.root.plugin_registry());
    if facts.is_left_over() {
        let dir = facts.root.plugin_dir();
        return Some(Finding::info(
            id,
            registry,
            format!(
                "no socket of {DRIVER_NAME} is in it; {dir} exists, and no claim, process or pod of the plugin"
            ),
            format!(
                "if the plugin was uninstalled: rm -r {}; else: {SEE_WHY_NOT}",
                shell_quote(&dir)
            ),
        ));
    }
    let was_here = facts.root.has_plugin == Some(true);
    (was_here && facts.is_registered == Some(false)).then(|| {
        Finding::error(
            id,
            registry,
            format!("no socket of {DRIVER_NAME} is in it: kubelet cannot reach the plugin"),
            SEE_WHY_NOT,
        )
    })
}

/// kubelet finds the socket, and is refused.
fn check_sockets(facts: &ClaimFacts) -> Option<Finding> {
    let (first, others) = facts.deserted_sockets.split_first()?;
    let more = and_more(others.len());
    Some(Finding::error(
        "plugin-not-listening",
        first,
        format!(
            "no process listens on it{more}: who made it has ended, and kubelet cannot reach the plugin"
        ),
        SEE_WHY_NOT,
    ))
}

fn set_aside(facts: &ClaimFacts) -> impl Iterator<Item = Finding> {
    let plugin = facts.root.plugin_dir();
    facts.set_aside.iter().map(move |name| {
        Finding::warning(
            "checkpoint-set-aside",
            format!("{plugin}/{name}"),
            "the plugin found it damaged and has not yet recovered what was lost",
            "keep it, and see in the plugin's log what it waits for (usually the API server)",
        )
    })
}

/// Devices and CDI specs in `/var/run/cdi` do not survive a reboot, so that claims
/// of an earlier boot are not prepared, whatever their records are.
fn check_boot(facts: &ClaimFacts) -> Option<Finding> {
    // A plugin without claims has nothing to prepare again.
    let has_records = facts.records().is_some_and(|records| !records.is_empty());
    facts.earlier_boot().map(|(recorded, current)| {
        Finding::new(
            Severity::for_claims(has_records),
            "checkpoint-of-earlier-boot",
            facts.root.checkpoint(),
            format!(
                "its boot is {recorded}, the host's is {current}: no plugin has prepared anything since"
            ),
            "start the kubelet plugin on this node: it prepares the claims again",
        )
    })
}

/// A file of another version is no damage: a newer kubelet may have written it.
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
                "kubelet does not start with it: drain the node, remove the file, start kubelet",
            )
            .quoting(),
        ),
        KubeletStateFile::Unknown(reason) => Some(
            Finding::warning(
                "kubelet-state-unknown",
                file,
                format!("{reason}: it may be that of another version"),
                "leave it: claims are not compared with it; kubelet 1.34 and newer are known",
            )
            .quoting(),
        ),
    }
}

/// Whether claims share the node's device, as the plugin has noted.
fn check_sharing(facts: &ClaimFacts) -> Option<Finding> {
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
    let device = channel_device_name(0);
    let has_it = |record: &&RecordFacts| record.channels.iter().any(|it| it.device == device);
    let records = facts.records().into_iter().flat_map(|it| it.values());
    match records.filter(has_it).count() {
        1 => "1 claim has it".to_owned(),
        count => format!("{} have it", counted(count, "claim")),
    }
}

/// Specs of claims without the plugin's records: kubelet may have another root directory.
/// That kubelet has claims shows that its root is the right one; they are compared with the
/// rest.
fn check_kubelet_root(facts: &ClaimFacts, invocation: &Invocation) -> Option<Finding> {
    let path = facts.specs.paths.values().next()?;
    // The checkpoint that was set aside is why there is none.
    if !facts.set_aside.is_empty() {
        return None;
    }
    let kubelet = facts.kubelet_state();
    if kubelet.is_some_and(|state| !state.claims.is_empty()) {
        return None;
    }
    let seen = match facts.specs.paths.len() {
        1 => format!("{path} is of a claim"),
        n => format!("{path} and {} more specs are of claims", n - 1),
    };
    if facts.root.has_plugin == Some(false) {
        return Some(plugin_dir_absent(&facts.root, &seen, invocation));
    }
    (facts.checkpoint == CheckpointFile::Absent).then(|| {
        Finding::warning(
            "checkpoint-absent",
            facts.root.checkpoint(),
            format!("it does not exist, and {seen}: it is unknown which claims live"),
            "start the kubelet plugin on this node: it puts its records and the specs in line",
        )
    })
}

/// Where another root directory is found, the fix is this examination with it.
fn plugin_dir_absent(root: &KubeletRootFacts, seen: &str, invocation: &Invocation) -> Finding {
    let evidence =
        format!("there is no such directory, and {seen}: it is unknown which claims live");
    let (evidence, fix) = match &root.other {
        Some(other) => (
            format!("{evidence}; there is {}", other.evidence),
            invocation.doctor(Path::new(&other.path)),
        ),
        None => (
            evidence,
            "name kubelet's root (its --root-dir) with --kubelet-root; if it is this one, start \
             the kubelet plugin on this node"
                .to_owned(),
        ),
    };
    Finding::warning("plugin-directory-absent", root.plugin_dir(), evidence, fix)
}

/// The summary of a host of whose claims nothing is seen.
fn no_kubelet(root: &KubeletRootFacts) -> String {
    let path = &root.path;
    match &root.other {
        Some(other) => format!(
            "no kubelet in {path}; there is {} (--kubelet-root)",
            other.path
        ),
        None => format!("no kubelet in {path}"),
    }
}

#[cfg(test)]
mod tests;
