//! The claims of a domain, by their label.

use super::*;

fn name(namespace: &str, name: &str) -> ClaimName {
    (namespace.into(), name.into())
}

fn claims(index: &Index) -> Vec<String> {
    let domain = mk_domain(json!({}));
    index.claims(&domain).map(ToOwned::to_owned).collect()
}

#[test]
fn claims_have_the_label_and_the_domains_namespace_and_are_sorted() {
    let mut index = mk_index();
    index.apply_claim(UID.into(), name("team-1", "b"));
    index.apply_claim(UID.into(), name("team-1", "a"));
    index.apply_claim(UID.into(), name("team-2", "elsewhere"));
    index.apply_claim("other-uid".into(), name("team-1", "of-another"));
    index.apply_claim(UID.into(), name("team-1", "a"));
    assert_eq!(claims(&index), ["a", "b"]);
    index.remove_claim(UID, &name("team-1", "a"));
    index.remove_claim(UID, &name("team-1", "unknown"));
    index.remove_claim("unknown-uid", &name("team-1", "b"));
    assert_eq!(claims(&index), ["b"]);
}

#[test]
fn former_claims_are_kept_until_a_new_list_has_ended() {
    let mut index = mk_index();
    index.apply_claim(UID.into(), name("team-1", "gone"));
    index.begin_claims();
    index.apply_claim(UID.into(), name("team-1", "new"));
    assert_eq!(claims(&index), ["gone"]);
    index.finish_claims();
    assert_eq!(claims(&index), ["new"]);
    index.apply_claim(UID.into(), name("team-1", "newer"));
    assert_eq!(claims(&index), ["new", "newer"]);
    index.finish_claims();
    assert_eq!(claims(&index), ["new", "newer"], "no list was in progress");
}

#[test]
fn an_interrupted_list_is_discarded() {
    let mut index = mk_index();
    index.begin_claims();
    index.apply_claim(UID.into(), name("team-1", "gone"));
    index.begin_claims();
    index.apply_claim(UID.into(), name("team-1", "new"));
    index.finish_claims();
    assert_eq!(claims(&index), ["new"]);
}

#[test]
fn a_domain_without_claims_uses_no_memory() {
    let mut index = mk_index();
    index.apply_claim(UID.into(), name("team-1", "a"));
    index.remove_claim(UID, &name("team-1", "a"));
    assert!(index.claims.is_empty());
}
