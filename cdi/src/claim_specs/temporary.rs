//! Temporary files of Go's CDI library.
//!
//! Its `WriteSpec` fills `spec.<digits>.tmp` (`os.CreateTemp`) and renames it;
//! a writer that crashes in between leaves it there for ever. Every vendor's
//! driver uses the same names, so only the content says whose a file is: YAML with
//! a key per line:
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

/// Whether the library gives its temporary files names like `name`.
pub(super) fn is_name_of_one(name: &str) -> bool {
    let digits = name
        .strip_prefix("spec.")
        .and_then(|rest| rest.strip_suffix(".tmp"));
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether `text`, a spec that may be truncated, is of `kind` and has only devices
/// of claims that are not `live`. One without a whole device name has no owner.
pub(super) fn is_of_dead_claims(text: &[u8], kind: &Kind, live: &BTreeSet<ClaimUid>) -> bool {
    let mut devices = whole_lines(text)
        .filter_map(|line| line.trim_start().strip_prefix("- name: "))
        .peekable();
    let kind = format!("kind: {kind}");
    whole_lines(text).any(|line| line == kind)
        && devices.peek().is_some()
        && devices.all(|device| !live.iter().any(|claim| is_of(device, claim)))
}

/// The lines that are complete: the last one may be truncated.
fn whole_lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| str::from_utf8(line).ok()?.strip_suffix('\n'))
}

fn is_of(device: &str, claim: &ClaimUid) -> bool {
    let rest = device.strip_prefix(claim.as_str());
    rest.is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: &[u8] = include_bytes!(
        "../../tests/fixtures/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml"
    );

    fn dead(text: &[u8], live: &[&str]) -> bool {
        let live = live.iter().map(|uid| ClaimUid::new(*uid).unwrap());
        is_of_dead_claims(text, &Kind::compute_domain_claim(), &live.collect())
    }

    #[test]
    fn the_library_counts_its_temporaries() {
        for name in ["spec.1.tmp", "spec.3141592653.tmp"] {
            assert!(is_name_of_one(name), "{name}");
        }
        for name in [
            "spec..tmp",
            "spec.tmp",
            "spec.1a.tmp",
            "spec.1.yaml",
            ".spec.1.tmp",
            "myspec.1.tmp",
        ] {
            assert!(!is_name_of_one(name), "{name}");
        }
    }

    #[test]
    fn a_spec_of_gos_driver_is_dead_with_its_claim() {
        assert!(dead(GO, &[]));
        assert!(dead(GO, &["22222222-aaaa-4bbb-8ccc-000000000002"]));
        assert!(!dead(GO, &["11111111-aaaa-4bbb-8ccc-000000000001"]));
    }

    #[test]
    fn a_spec_is_known_from_the_end_of_the_line_that_names_its_first_device() {
        let known_from = GO.windows(9).position(|text| text == b"channel-0").unwrap() + 10;
        for end in 0..=GO.len() {
            assert_eq!(dead(&GO[..end], &[]), end >= known_from, "{end} bytes");
        }
    }

    #[test]
    fn a_spec_of_another_kind_is_somebody_elses() {
        let text = String::from_utf8(GO.to_vec()).unwrap();
        for kind in [
            "k8s.gpu.nvidia.com/claim",
            "k8s.compute-domain.nvidia.com/device",
        ] {
            let other = text.replace("k8s.compute-domain.nvidia.com/claim", kind);
            assert!(!dead(other.as_bytes(), &[]), "{kind}");
        }
        assert!(!dead(b"\xff\n", &[]));
    }

    #[test]
    fn a_spec_for_several_claims_lives_as_long_as_one_of_them() {
        let (first, second) = ("1111-aa", "1111-bb");
        let kind = Kind::compute_domain_claim();
        let text = format!("kind: {kind}\n- name: {first}-channel-0\n- name: {second}-channel-0\n");
        assert!(!dead(text.as_bytes(), &[first]));
        assert!(!dead(text.as_bytes(), &[second]));
        assert!(dead(text.as_bytes(), &["1111-a"]));
    }
}
