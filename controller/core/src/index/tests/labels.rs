//! A user changes the label of a template by hand.

use super::*;
use crate::fixtures::{mk_template_object, with_mode};

#[test]
fn a_template_is_found_under_its_current_uid() {
    let mut index = listed();
    index.apply_template(template_at(1));
    assert_eq!(
        index.apply_template(labelled_at(Some("other-uid"), 2)),
        NEWER
    );
    assert_eq!(templates(&index, UID), Vec::<String>::new());
    assert_eq!(templates(&index, "other-uid"), [TEMPLATE_UID]);
    index.learn_template(template_at(3));
    assert_eq!(templates(&index, UID), [TEMPLATE_UID]);
    assert_eq!(templates(&index, "other-uid"), Vec::<String>::new());
    assert_eq!(keys_of(index.remove_template(TEMPLATE_UID)), [UID]);
    assert_eq!(templates(&index, UID), Vec::<String>::new());
}

#[test]
fn an_older_copy_with_the_former_label_changes_nothing() {
    let mut index = listed();
    index.learn_template(labelled_at(Some("other-uid"), 2));
    assert_eq!(index.apply_template(template_at(1)), Change::Nothing);
    assert_eq!(templates(&index, "other-uid"), [TEMPLATE_UID]);
    assert_eq!(templates(&index, UID), Vec::<String>::new());
}

#[test]
fn a_template_without_the_label_is_not_kept_since_the_watch_would_never_remove_it() {
    let mut index = listed();
    index.learn_template(labelled_at(None, 2));
    assert!(index.keys().is_empty());
    assert_eq!(index.key_of_template(TEMPLATE_UID), None);
}

#[test]
fn a_known_template_is_removed_when_it_loses_the_label() {
    let mut index = listed();
    index.apply_template(template_at(5));
    index.learn_template(labelled_at(None, 4));
    assert_eq!(
        templates(&index, UID),
        [TEMPLATE_UID],
        "older than the watch"
    );
    index.learn_template(labelled_at(None, 6));
    assert!(index.keys().is_empty());
    // The watch delivers that, too, a little later.
    assert_eq!(index.remove_template(TEMPLATE_UID), None);
}

#[test]
fn a_workload_template_in_the_domains_namespace_belongs_to_the_domain() {
    let domain = mk_domain(with_mode("All"));
    let is_of = |patch| mk_template(patch).is_of(&domain);
    assert!(is_of(json!({})));
    assert!(!is_of(json!({ "metadata": { "namespace": "team-2" } })));
    assert!(!mk_daemon_template("team-1").is_of(&domain));
    assert!(!labelled_at(Some("other-uid"), 1).is_of(&domain));
    let metadata = mk_template_object(json!({})).metadata;
    assert!(ObservedTemplate::undecodable(&metadata).is_of(&domain));
}
