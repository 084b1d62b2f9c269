mod channels;
mod claims;
mod copies;
mod labels;
mod memory;
mod relist;
mod second_controller;

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    TEMPLATE_UID, UID, deleted, finalized, merged, mk_daemon_template, mk_domain, mk_template,
};

const NEWER: Change = Change::Newer {
    by_second_controller: false,
};

fn mk_index() -> Index {
    Index::default()
}

fn version(number: u64) -> Value {
    json!({ "metadata": { "resourceVersion": number.to_string() } })
}

/// The domain at this version. Copies differ in the generation.
fn domain_at(number: u64) -> Domain {
    let generation = json!({ "metadata": { "generation": number } });
    mk_domain(merged(version(number), generation))
}

fn other_domain_at(uid: &str, number: u64) -> Domain {
    let uid = json!({ "metadata": { "uid": uid, "name": uid } });
    mk_domain(merged(version(number), uid))
}

fn template_at(number: u64) -> ObservedTemplate {
    mk_template(version(number))
}

fn other_template_at(uid: &str, number: u64) -> ObservedTemplate {
    let uid = json!({ "metadata": { "uid": uid, "name": uid } });
    mk_template(merged(version(number), uid))
}

/// A template with this value of the domain label, or without it.
fn labelled_at(label: Option<&str>, number: u64) -> ObservedTemplate {
    let labels = json!({ "metadata": { "labels": {
        "resource.nvidia.com/computeDomain": label,
    } } });
    mk_template(merged(version(number), labels))
}

fn generation(index: &Index) -> Option<i64> {
    index.domain(UID)?.generation
}

/// The UIDs of the templates of this key.
fn templates(index: &Index, key: &str) -> Vec<String> {
    let templates = index.templates_of(key);
    let uids = templates.iter().map(|it| it.reference().uid.to_string());
    uids.collect()
}

/// The UIDs in their labels.
fn keys_of(templates: impl IntoIterator<Item = Arc<ObservedTemplate>>) -> Vec<String> {
    let keys = templates.into_iter().map(|it| it.domain_uid().to_owned());
    keys.collect()
}

/// An index after a first, empty list.
fn listed() -> Index {
    let mut index = mk_index();
    index.begin_domains();
    index.finish_domains();
    index.begin_templates();
    index.finish_templates();
    index
}

#[test]
fn a_key_has_the_domain_and_the_templates_with_its_label_in_all_namespaces() {
    let mut index = mk_index();
    let elsewhere = json!({ "metadata": { "namespace": "team-2", "uid": "elsewhere" } });
    index.apply_domain(domain_at(1));
    index.apply_template(template_at(2));
    index.apply_template(mk_template(elsewhere));
    index.apply_template(mk_daemon_template("nvidia"));
    index.apply_template(labelled_at(Some("other-uid"), 3));
    assert_eq!(generation(&index), Some(1));
    assert_eq!(templates(&index, UID), ["daemon-uid", "elsewhere"]);
    assert_eq!(templates(&index, "other-uid"), [TEMPLATE_UID]);
    assert!(index.domain("other-uid").is_none());
    let daemons: Vec<_> = index.daemon_templates().collect();
    assert_eq!(daemons.len(), 1);
    assert_eq!(&*daemons[0].reference().uid, "daemon-uid");
}

#[test]
fn templates_are_sorted_independently_of_the_order_of_events() {
    let of_place = |namespace: &str, name: &str| {
        let uid = format!("{namespace}-{name}");
        let place = json!({ "metadata": { "namespace": namespace, "name": name, "uid": uid } });
        mk_template(place)
    };
    let places = [("a", "x"), ("a", "y"), ("b", "x")];
    let mut forwards = mk_index();
    let mut backwards = mk_index();
    for (namespace, name) in places {
        forwards.apply_template(of_place(namespace, name));
    }
    for (namespace, name) in places.into_iter().rev() {
        backwards.apply_template(of_place(namespace, name));
    }
    for index in [forwards, backwards] {
        assert_eq!(templates(&index, UID), ["a-x", "a-y", "b-x"]);
    }
}

#[test]
fn every_uid_of_a_domain_or_template_is_a_key_until_both_are_deleted() {
    let mut index = mk_index();
    index.apply_domain(domain_at(1));
    index.apply_template(labelled_at(Some("other-uid"), 2));
    let keys = |index: &Index| {
        let mut keys: Vec<_> = index.keys().iter().map(ToString::to_string).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&index), [UID, "other-uid"]);
    index.remove_domain(UID);
    assert_eq!(keys(&index), ["other-uid"]);
    assert_eq!(
        index.key_of_template(TEMPLATE_UID),
        Some("other-uid".into())
    );
    index.remove_template(TEMPLATE_UID);
    assert_eq!(keys(&index), Vec::<String>::new());
    assert_eq!(index.key_of_template(TEMPLATE_UID), None);
}

#[test]
fn domains_are_counted_by_reported_state() {
    let mut index = mk_index();
    let with_state = |uid: &str, state: &str| {
        let patch = json!({ "metadata": { "uid": uid }, "status": { "status": state } });
        mk_domain(patch)
    };
    index.apply_domain(with_state("a", "Ready"));
    index.apply_domain(with_state("b", "Ready"));
    index.apply_domain(with_state("c", "NotReady"));
    index.apply_domain(domain_at(1));
    assert_eq!(index.count(ComputeDomainState::Ready), 2);
    assert_eq!(index.count(ComputeDomainState::NotReady), 1);
}

#[test]
fn any_live_domain_is_not_being_deleted() {
    let mut index = mk_index();
    index.apply_domain(mk_domain(deleted()));
    assert_eq!(index.any_live_domain(), None);
    index.apply_domain(other_domain_at("other-uid", 1));
    let live = index.any_live_domain().unwrap();
    assert_eq!(live.uid().as_str(), "other-uid");
}
