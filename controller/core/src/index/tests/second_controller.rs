//! A second controller that works on the same objects: the Go driver's.

use super::*;
use crate::fixtures::daemon_in;

fn by(manager: &str, second: u32, number: u64) -> Domain {
    let written = json!({ "metadata": { "managedFields": [
        { "manager": manager, "operation": "Update", "time": format!("2026-01-02T03:04:{second:02}Z") },
    ] } });
    mk_domain(merged(version(number), written))
}

fn by_go(second: u32, number: u64) -> Domain {
    by("compute-domain-controller", second, number)
}

fn is_by_second(change: Change) -> bool {
    matches!(
        change,
        Change::Newer {
            by_second_controller: true
        }
    )
}

#[test]
fn writes_before_the_first_list_are_ignored() {
    let mut index = mk_index();
    index.begin_domains();
    assert_eq!(index.apply_domain(by_go(1, 1)), NEWER);
    index.finish_domains();
    // Another client writes, and the old entry stays.
    assert_eq!(index.apply_domain(by_go(1, 2)), NEWER);
}

#[test]
fn a_new_write_shows_a_second_controller() {
    let mut index = mk_index();
    index.begin_domains();
    index.apply_domain(by_go(1, 1));
    index.apply_domain(other_domain_at("other-uid", 1));
    index.finish_domains();
    assert!(is_by_second(index.apply_domain(by_go(2, 2))));
    assert_eq!(index.apply_domain(by_go(2, 3)), NEWER, "reported once");
}

#[test]
fn a_first_write_to_a_domain_or_one_found_in_a_later_list_shows_a_second_controller() {
    let mut index = listed();
    assert!(is_by_second(index.apply_domain(by_go(1, 1))));
    let mut index = listed();
    index.apply_domain(domain_at(1));
    index.begin_domains();
    assert!(is_by_second(index.apply_domain(by_go(1, 2))));
}

#[test]
fn writes_of_users_and_our_own_show_no_second_controller() {
    let mut index = listed();
    assert_eq!(index.apply_domain(by("imex-dra", 1, 1)), NEWER);
    assert_eq!(index.apply_domain(by("kubectl-edit", 2, 2)), NEWER);
    assert_eq!(
        index.apply_domain(mk_domain(merged(version(3), finalized()))),
        NEWER
    );
}

#[test]
fn a_new_daemon_template_shows_a_second_controller_and_an_existing_one_does_not() {
    let at = |number| mk_template(merged(daemon_in("nvidia"), version(number)));
    let mut index = mk_index();
    index.begin_templates();
    assert_eq!(index.apply_template(at(1)), NEWER);
    index.finish_templates();
    assert_eq!(index.apply_template(at(2)), NEWER);
    assert_eq!(index.apply_template(template_at(3)), NEWER);

    let mut index = listed();
    assert!(is_by_second(index.apply_template(at(1))));
    assert_eq!(index.apply_template(at(2)), NEWER);
}
