//! A watch that lists again: objects missing in the list are deleted.

use super::*;

#[test]
fn objects_missing_in_a_list_are_removed_and_their_keys_returned() {
    let mut index = listed();
    index.apply_domain(domain_at(1));
    index.apply_domain(other_domain_at("other-uid", 2));
    index.begin_domains();
    assert_eq!(
        index.apply_domain(other_domain_at("other-uid", 2)),
        Change::Nothing
    );
    assert_eq!(generation(&index), Some(1), "before the list has ended");
    assert_eq!(index.finish_domains(), [UID.into()]);
    assert_eq!(generation(&index), None);
    assert!(index.domain("other-uid").is_some());

    index.apply_template(template_at(3));
    index.apply_template(labelled_at(Some("other-uid"), 4));
    index.apply_template(other_template_at("other", 5));
    index.begin_templates();
    index.apply_template(other_template_at("other", 5));
    assert_eq!(keys_of(index.finish_templates()), ["other-uid"]);
    assert_eq!(templates(&index, "other-uid"), Vec::<String>::new());
    assert_eq!(templates(&index, UID), ["other"]);
}

#[test]
fn an_object_learnt_during_a_list_stays_if_it_is_newer_than_the_list() {
    let mut index = listed();
    index.apply_template(other_template_at("older", 1));
    index.begin_templates();
    index.learn_template(template_at(8));
    index.apply_template(other_template_at("older", 1));
    index.apply_template(other_template_at("listed", 7));
    assert!(index.finish_templates().is_empty());
    assert_eq!(templates(&index, UID), ["listed", "older", TEMPLATE_UID]);
    // The next list should have it.
    index.begin_templates();
    index.apply_template(other_template_at("listed", 7));
    assert_eq!(index.finish_templates().len(), 2);
    assert_eq!(templates(&index, UID), ["listed"]);
}

#[test]
fn an_object_learnt_during_a_list_is_removed_if_the_list_should_have_it() {
    let mut index = listed();
    index.begin_templates();
    index.learn_template(template_at(8));
    index.apply_template(other_template_at("listed", 9));
    assert_eq!(keys_of(index.finish_templates()), [UID]);
    assert_eq!(templates(&index, UID), ["listed"]);
}

#[test]
fn an_object_learnt_before_a_list_and_missing_in_it_is_removed() {
    let mut index = listed();
    index.learn_template(template_at(8));
    index.begin_templates();
    assert_eq!(keys_of(index.finish_templates()), [UID]);
}

#[test]
fn an_object_that_the_current_list_has_not_delivered_yet_is_learnt() {
    let mut index = listed();
    index.apply_template(other_template_at("older", 1));
    index.begin_templates();
    index.apply_template(other_template_at("listed", 9));
    index.learn_template(template_at(8));
    assert_eq!(templates(&index, UID), ["listed", "older", TEMPLATE_UID]);
    assert_eq!(index.apply_template(template_at(8)), Change::Nothing);
    index.finish_templates();
    assert_eq!(templates(&index, UID), ["listed", TEMPLATE_UID]);
    index.remove_template(TEMPLATE_UID);
    index.learn_template(template_at(8));
    assert_eq!(templates(&index, UID), ["listed"]);
}

#[test]
fn an_interrupted_list_removes_nothing() {
    let mut index = listed();
    index.apply_domain(domain_at(1));
    index.begin_domains();
    index.apply_domain(other_domain_at("seen-once", 2));
    index.begin_domains();
    index.apply_domain(domain_at(1));
    assert_eq!(index.finish_domains(), ["seen-once".into()]);
    assert_eq!(generation(&index), Some(1));
}

#[test]
fn a_response_with_a_listed_object_does_not_mark_it_as_learnt() {
    let mut index = listed();
    index.begin_domains();
    index.apply_domain(domain_at(5));
    index.learn_domain(domain_at(6));
    index.apply_domain(other_domain_at("other-uid", 9));
    assert_eq!(index.finish_domains(), []);
    assert_eq!(generation(&index), Some(6));
}

#[test]
fn a_list_after_a_restore_is_used_although_its_versions_are_older() {
    let mut index = listed();
    index.apply_domain(domain_at(9));
    index.begin_domains();
    assert_eq!(index.apply_domain(domain_at(5)), NEWER);
    assert_eq!(index.finish_domains(), []);
    assert_eq!(generation(&index), Some(5));
}

#[test]
fn after_a_restore_responses_are_stored_although_the_watch_had_newer_versions() {
    let mut index = listed();
    index.apply_template(other_template_at("other", 9));
    index.begin_templates();
    index.apply_template(other_template_at("other", 5));
    index.finish_templates();
    index.learn_template(template_at(6));
    assert_eq!(templates(&index, UID), ["other", TEMPLATE_UID]);
    assert_eq!(index.apply_template(template_at(6)), Change::Nothing);
    assert_eq!(index.apply_template(template_at(7)), NEWER);
}
