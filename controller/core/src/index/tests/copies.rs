//! Of two copies of an object the newer one is kept, from a watch or a response.

use super::*;
use crate::fixtures::being_deleted;

#[test]
fn a_change_is_reported_once() {
    let mut index = mk_index();
    assert_eq!(index.apply_domain(domain_at(1)), NEWER);
    assert_eq!(index.apply_domain(domain_at(1)), Change::Nothing);
    assert_eq!(index.apply_domain(domain_at(2)), NEWER);
    assert_eq!(generation(&index), Some(2));
    assert_eq!(index.apply_template(template_at(3)), NEWER);
    assert_eq!(index.apply_template(template_at(3)), Change::Nothing);
    assert_eq!(index.apply_template(template_at(4)), NEWER);
    assert_eq!(templates(&index, UID), [TEMPLATE_UID]);
}

#[test]
fn an_event_older_than_a_response_changes_nothing() {
    let mut index = listed();
    index.apply_domain(domain_at(1));
    index.learn_domain(domain_at(5));
    for late in 2..=5 {
        assert_eq!(index.apply_domain(domain_at(late)), Change::Nothing);
        assert_eq!(generation(&index), Some(5));
    }
    assert_eq!(index.apply_domain(domain_at(6)), NEWER);

    index.learn_template(mk_template(merged(version(9), deleted())));
    assert_eq!(index.apply_template(template_at(8)), Change::Nothing);
    assert!(index.templates_of(UID)[0].is_being_deleted());
}

#[test]
fn a_response_older_than_the_watch_changes_nothing() {
    let mut index = listed();
    index.apply_domain(domain_at(5));
    index.learn_domain(domain_at(4));
    assert_eq!(generation(&index), Some(5));
    index.apply_template(mk_template(merged(version(9), deleted())));
    index.learn_template(template_at(8));
    assert!(index.templates_of(UID)[0].is_being_deleted());
}

#[test]
fn a_response_with_an_object_that_the_watch_does_not_have_yet_is_stored() {
    let mut index = listed();
    index.apply_template(other_template_at("other", 7));
    index.learn_template(template_at(8));
    assert_eq!(templates(&index, UID), ["other", TEMPLATE_UID]);
}

#[test]
fn a_response_with_an_object_that_is_deleted_by_now_is_not_stored() {
    let mut index = listed();
    index.apply_domain(domain_at(5));
    index.remove_domain(UID);
    index.learn_domain(domain_at(5));
    assert_eq!(generation(&index), None);

    index.apply_template(other_template_at("other", 9));
    index.learn_template(template_at(8));
    assert_eq!(templates(&index, UID), ["other"]);
}

#[test]
fn the_removal_of_the_last_finalizer_is_stored_although_the_version_stays() {
    let mut index = listed();
    index.apply_template(mk_template(merged(version(9), deleted())));
    index.learn_template(mk_template(merged(version(9), being_deleted(&[]))));
    assert!(index.templates_of(UID)[0].is_gone());
    let late = mk_template(merged(version(9), deleted()));
    assert_eq!(index.apply_template(late), Change::Nothing);
    assert!(index.templates_of(UID)[0].is_gone());
    assert_eq!(keys_of(index.remove_template(TEMPLATE_UID)), [UID]);
    assert_eq!(index.remove_template(TEMPLATE_UID), None);
}

#[test]
fn objects_whose_versions_cannot_be_compared_are_always_stored() {
    let mut index = mk_index();
    for generation_of_copy in [1, 2, 1] {
        let patch = json!({ "metadata": {
            "generation": generation_of_copy, "resourceVersion": "opaque",
        } });
        assert_eq!(index.apply_domain(mk_domain(patch)), NEWER);
        assert_eq!(generation(&index), Some(generation_of_copy));
    }
}
