//! CDI names, and the names of claims' spec files.

use imex_cdi::{ClaimUid, DeviceName, Kind, QualifiedName};

use crate::scope::strings;

/// Whether `text` starts with one of `first`, ends with a letter or digit, and has
/// otherwise only these and `inner`, of the characters that the scopes have.
fn has_form(text: &str, first: &str, inner: &str) -> bool {
    text.starts_with(|c| first.contains(c))
        && text.ends_with(|c| "aZ0".contains(c))
        && text.chars().all(|c| "aZ0".contains(c) || inner.contains(c))
}

/// Scope: every string of at most 5 characters over letters, a digit, all that may be
/// inside a name, both separators, a space and a letter beyond ASCII.
// req: CDI-12
#[test]
fn names_follow_the_grammar_and_read_back_as_written() {
    let is_part = |text: &str| has_form(text, "aZ", "_-.");
    let is_kind = |text: &str| {
        let parts = text.split_once('/');
        parts.is_some_and(|(vendor, class)| is_part(vendor) && is_part(class))
    };
    let is_device = |text: &str| has_form(text, "aZ0", "_-.:");
    let is_qualified = |text: &str| {
        let parts = text.split_once('=');
        parts.is_some_and(|(kind, device)| is_kind(kind) && is_device(device))
    };
    for text in strings("aZ0_-.:/= é", 5) {
        let device = DeviceName::new(text.as_str()).map(|name| name.to_string());
        assert_eq!(device.ok(), is_device(&text).then(|| text.clone()));
        let kind = text.parse::<Kind>().map(|kind| kind.to_string());
        assert_eq!(kind.ok(), is_kind(&text).then(|| text.clone()));
        let name = text.parse::<QualifiedName>().map(|name| name.to_string());
        assert_eq!(name.ok(), is_qualified(&text).then_some(text));
    }
}

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
