//! Temporary files of Go's CDI library.
//!
//! Its `WriteSpec` fills `spec.<digits>.tmp` (`os.CreateTemp`) and renames it;
//! a writer that crashes in between leaves the file behind. Every vendor's driver uses the same
//! names, so only the content identifies the owner: YAML with a key per line:
//!
//! ```text
//! ---
//! cdiVersion: 0.5.0
//! kind: k8s.compute-domain.nvidia.com/claim
//! devices:
//!     - name: 11111111-aaaa-4bbb-8ccc-000000000001-channel-0
//! ```

use std::collections::BTreeSet;

use crate::{ClaimUid, Kind};

/// Whether `name` is that of a temporary file of the library.
pub(super) fn is_temporary(name: &str) -> bool {
    let digits = name
        .strip_prefix("spec.")
        .and_then(|rest| rest.strip_suffix(".tmp"));
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether `text`, a spec that may be truncated, is of `kind` and has only devices
/// of claims that are not `prepared`. A text without a whole device name has no known owner.
pub(super) fn is_stale(text: &[u8], kind: &Kind, prepared: &BTreeSet<ClaimUid>) -> bool {
    let mut devices = whole_lines(text)
        .filter_map(|line| line.trim_start().strip_prefix("- name: "))
        .peekable();
    let kind = format!("kind: {kind}");
    whole_lines(text).any(|line| line == kind)
        && devices.peek().is_some()
        && devices.all(|device| !prepared.iter().any(|claim| belongs_to(device, claim)))
}

/// The lines that are complete: the last one may be truncated.
fn whole_lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| str::from_utf8(line).ok()?.strip_suffix('\n'))
}

fn belongs_to(device: &str, claim: &ClaimUid) -> bool {
    let rest = device.strip_prefix(claim.as_str());
    rest.is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: &[u8] = include_bytes!(
        "../../tests/fixtures/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml"
    );

    fn stale(text: &[u8], prepared: &[&str]) -> bool {
        let prepared = prepared.iter().map(|uid| ClaimUid::new(*uid).unwrap());
        is_stale(text, &Kind::compute_domain_claim(), &prepared.collect())
    }

    #[test]
    fn temporary_files_have_numbers_in_their_names() {
        for name in ["spec.1.tmp", "spec.3141592653.tmp"] {
            assert!(is_temporary(name), "{name}");
        }
        for name in [
            "spec..tmp",
            "spec.tmp",
            "spec.1a.tmp",
            "spec.1.yaml",
            ".spec.1.tmp",
            "myspec.1.tmp",
        ] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn a_spec_of_gos_driver_is_stale_without_its_claim() {
        assert!(stale(GO, &[]));
        assert!(stale(GO, &["22222222-aaaa-4bbb-8ccc-000000000002"]));
        assert!(!stale(GO, &["11111111-aaaa-4bbb-8ccc-000000000001"]));
    }

    #[test]
    fn the_owner_is_known_from_the_end_of_the_first_devices_line() {
        let known_from = GO.windows(9).position(|text| text == b"channel-0").unwrap() + 10;
        for end in 0..=GO.len() {
            assert_eq!(stale(&GO[..end], &[]), end >= known_from, "{end} bytes");
        }
    }

    #[test]
    fn a_spec_of_another_kind_is_never_stale() {
        let text = String::from_utf8(GO.to_vec()).unwrap();
        for kind in [
            "k8s.gpu.nvidia.com/claim",
            "k8s.compute-domain.nvidia.com/device",
        ] {
            let other = text.replace("k8s.compute-domain.nvidia.com/claim", kind);
            assert!(!stale(other.as_bytes(), &[]), "{kind}");
        }
        assert!(!stale(b"\xff\n", &[]));
    }

    #[test]
    fn a_spec_of_several_claims_is_stale_without_any_of_them() {
        let (first, second) = ("1111-aa", "1111-bb");
        let kind = Kind::compute_domain_claim();
        let text = format!("kind: {kind}\n- name: {first}-channel-0\n- name: {second}-channel-0\n");
        assert!(!stale(text.as_bytes(), &[first]));
        assert!(!stale(text.as_bytes(), &[second]));
        assert!(stale(text.as_bytes(), &["1111-a"]));
    }
}
