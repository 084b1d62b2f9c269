//! The names of claims' spec files.

use imex_cdi::{ClaimUid, Kind};

use crate::scope::strings;

/// Scope: every string of at most 5 characters over a letter, a digit, a dash and
/// what would lead out of the name or the directory.
#[test]
fn a_claims_file_name_is_its_own() {
    let kind = Kind::compute_domain_claim();
    for text in strings("a0-_./\0", 5) {
        let valid = !text.is_empty()
            && text.chars().all(|c| "a0-".contains(c))
            && !text.starts_with('-')
            && !text.ends_with('-');
        let name = format!("k8s.compute-domain.nvidia.com-claim_{text}.yaml");
        let claim = ClaimUid::from_spec_file_name(&kind, &name);
        assert_eq!(claim.is_some(), valid, "{name:?}");
        assert_eq!(claim, ClaimUid::new(text).ok());
        if let Some(claim) = claim {
            assert_eq!(claim.spec_file_name(&kind), name);
        }
    }
}
