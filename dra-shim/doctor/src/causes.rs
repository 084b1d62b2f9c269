//! Which finding explains which: a cause is listed before its consequences, whatever its own
//! severity.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, Severity};

/// `CAUSES: EFFECTS`: what each finding explains, if both are found. Only direct effects are
/// listed; [`consequences`] follows chains. There are no cycles.
const EXPLAINS: &[&str] = &[
    // Without a module, or with module and library of different drivers, every NVML call
    // fails, nvidia-imex exits, and no device has a major.
    "nvidia-module-not-loaded: nvml-error host-imex-not-running cdi-spec-node-missing",
    "driver-version-mismatch: nvml-error host-imex-not-running cdi-spec-path-missing",
    "gpu-common-node-missing: cdi-spec-stale-major cdi-spec-node-missing",
    "driver-library-missing driver-file-unusable: cdi-spec-path-missing",
    "driver-too-old: imex-channel-major-missing nvidia-caps-major-missing host-imex-not-running",
    "imex-channels-disabled imex-channel-major-missing: cdi-spec-stale-major cdi-spec-node-missing",
    "gpu-of-claim-gone: cdi-spec-node-missing",
    "gpu-not-enumerated gpu-without-driver gpu-other-driver gpu-passed-through: no-gpus",
    // nvidia-modprobe creates the nodes.
    "modify-device-files-off: imex-capability-node-missing cdi-spec-node-missing",
    "imex-node-wrong: cdi-spec-node-differs",
    // At its start, nvidia-imex opens its capability's node, looks for its own address in
    // the node list, and takes the driver's only session.
    "nvidia-caps-major-missing: imex-capability-node-missing host-imex-not-running",
    "imex-capability-node-missing imex-capability-node-wrong imex-capability-node-unreadable \
     host-imex-config-unreadable host-imex-no-nodes: host-imex-not-running",
    "host-imex-own-address-missing: host-imex-not-running imex-not-ready",
    "host-imex-two-daemons host-imex-not-running host-imex-off host-imex-absent: \
     imex-ctl-failed imex-ctl-timed-out imex-not-ready",
    // A claim whose spec no runtime reads counts as a claim without a spec.
    "cdi-directory-absent cdi-directory-unreadable cdi-directory-link cdi-directory-not-one \
     cdi-leftover cdi-spec-extension cdi-spec-in-subdirectory: claim-without-spec",
    "cdi-spec-hidden: cdi-device-conflict",
    // While the plugin is not running, the files of its last run remain; /var/run/cdi does
    // not survive a reboot.
    "plugin-not-registered plugin-not-listening: checkpoint-of-earlier-boot checkpoint-absent \
     checkpoint-set-aside cdi-directory-absent claim-without-spec claim-unknown-to-plugin \
     claim-unknown-to-kubelet spec-without-claim gpu-change-left",
    "checkpoint-of-earlier-boot: cdi-directory-absent cdi-spec-stale-major claim-without-spec \
     claim-unknown-to-plugin claim-unknown-to-kubelet spec-without-claim spec-of-another-channel",
    "checkpoint-damaged checkpoint-set-aside checkpoint-absent plugin-directory-absent: \
     claim-without-spec claim-unknown-to-plugin spec-without-claim",
    "kubelet-state-damaged: plugin-not-registered",
];

/// Sorts findings by severity, worst first. A cause counts as severe as its worst
/// consequence and precedes it. Equal findings keep their order.
// req: DOCTOR-2
pub(crate) fn sort(findings: &mut [Finding]) {
    let order = Order::new(findings);
    findings.sort_by_key(|finding| {
        let explained = order.worst_explained.get(finding.id).copied();
        let severity = explained.map_or(finding.severity, |it| it.max(finding.severity));
        (Reverse(severity), order.places.get(finding.id).copied())
    });
}

/// The order of the ids that were found: causes before their consequences.
#[derive(Default)]
struct Order {
    places: BTreeMap<&'static str, usize>,
    /// The worst severity among an id's consequences.
    worst_explained: BTreeMap<&'static str, Severity>,
}

impl Order {
    fn new(findings: &[Finding]) -> Self {
        let mut worst: BTreeMap<&'static str, Severity> = BTreeMap::new();
        for finding in findings {
            let severity = worst.entry(finding.id).or_insert(finding.severity);
            *severity = (*severity).max(finding.severity);
        }
        let mut order = Self::default();
        // Of two causes, the more severe one comes first.
        let mut by_severity: Vec<&Finding> = findings.iter().collect();
        by_severity.sort_by_key(|finding| Reverse(finding.severity));
        for finding in by_severity {
            order.place(finding.id, &worst);
        }
        for id in worst.keys() {
            let explained = consequences(id).into_iter();
            let found = explained.filter_map(|it| worst.get(it).copied()).max();
            if let Some(severity) = found {
                order.worst_explained.insert(id, severity);
            }
        }
        order
    }

    /// Places `id` after those of its causes that were found.
    fn place(&mut self, id: &'static str, found: &BTreeMap<&'static str, Severity>) {
        if self.places.contains_key(id) {
            return;
        }
        for cause in found
            .keys()
            .filter(|cause| consequences(cause).contains(id))
        {
            self.place(cause, found);
        }
        let place = self.places.len();
        self.places.insert(id, place);
    }
}

/// Everything that `id` explains, directly or indirectly.
fn consequences(id: &str) -> BTreeSet<&'static str> {
    let mut all = BTreeSet::new();
    let mut todo = vec![id];
    while let Some(id) = todo.pop() {
        for (_, effect) in pairs().filter(|(cause, _)| *cause == id) {
            if all.insert(effect) {
                todo.push(effect);
            }
        }
    }
    all
}

/// Each cause with each of its direct effects.
fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = EXPLAINS.iter().filter_map(|row| row.split_once(": "));
    rows.flat_map(|(causes, effects)| {
        let effects = move |cause| effects.split(' ').map(move |effect| (cause, effect));
        causes.split(' ').flat_map(effects)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn finding(id: &'static str, severity: Severity) -> Finding {
        Finding::new(severity, id, "", "", "")
    }

    fn sorted(given: &[(&'static str, Severity)]) -> Vec<&'static str> {
        let mut findings: Vec<Finding> = given.iter().map(|(id, it)| finding(id, *it)).collect();
        sort(&mut findings);
        findings.iter().map(|it| it.id).collect()
    }

    /// The text of the Rust files below `dir`.
    fn sources(dir: &Path) -> String {
        let entries = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let texts = entries.map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(end) if end == "rs" => fs::read_to_string(&path).unwrap(),
            _ => String::new(),
        });
        texts.collect()
    }

    #[test]
    fn every_id_exists_in_a_check_or_library() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dirs = [
            "src/checks",
            "../clique/src",
            "../nvml/src",
            "../../cdi/src",
            "../../cdi/driver-files/src",
        ];
        let known: String = dirs.iter().map(|dir| sources(&here.join(dir))).collect();
        for id in pairs().flat_map(<[&str; 2]>::from) {
            assert!(known.contains(&format!("\"{id}\"")), "{id}");
        }
    }

    #[test]
    fn nothing_explains_itself() {
        for (cause, _) in pairs() {
            assert!(!consequences(cause).contains(cause), "{cause}");
        }
        let mut all: Vec<_> = pairs().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "each is listed once");
    }

    #[test]
    fn a_cause_precedes_its_effect_whatever_their_severities() {
        let severities = [Severity::Info, Severity::Warning, Severity::Error];
        for (cause, _) in pairs() {
            for effect in consequences(cause) {
                for of_cause in severities {
                    for of_effect in severities {
                        let pair = [(effect, of_effect), (cause, of_cause)];
                        assert_eq!(sorted(&pair), [cause, effect]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_cause_ranks_with_its_worst_effect_and_other_findings_keep_their_order() {
        let found = [
            ("host-imex-two-daemons", Severity::Error),
            ("a-warning", Severity::Warning),
            ("claim-without-spec", Severity::Error),
            ("checkpoint-of-earlier-boot", Severity::Warning),
            ("an-error", Severity::Error),
        ];
        let expected = [
            "host-imex-two-daemons",
            "checkpoint-of-earlier-boot",
            "claim-without-spec",
            "an-error",
            "a-warning",
        ];
        assert_eq!(sorted(&found), expected);
    }
}
