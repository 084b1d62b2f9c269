use std::mem::size_of;

use super::*;
use CliqueFinding::{Shared, Split};

const NOTHING: [(Key, CliqueFinding); 0] = [];

fn set(cliques: &mut Cliques, domain: &str, of: &[&str]) -> Vec<(Key, CliqueFinding)> {
    cliques.set(&domain.into(), of.iter().map(|it| (*it).into()))
}

fn names(of: &[&str]) -> BTreeSet<Arc<str>> {
    of.iter().map(|it| (*it).into()).collect()
}

fn shared(domain: &str, cliques: &[&str], with: &[&str]) -> (Key, CliqueFinding) {
    let (cliques, with) = (names(cliques), names(with));
    (domain.into(), Shared { cliques, with })
}

fn split(domain: &str, cliques: &[&str]) -> (Key, CliqueFinding) {
    let cliques = names(cliques);
    (domain.into(), Split { cliques })
}

#[test]
fn domains_in_separate_cliques_cause_no_finding() {
    let mut cliques = Cliques::default();
    assert_eq!(set(&mut cliques, "a", &["x"]), NOTHING);
    assert_eq!(set(&mut cliques, "b", &["y"]), NOTHING);
    assert_eq!(set(&mut cliques, "c", &[]), NOTHING);
    assert_eq!((cliques.count_shared(), cliques.count_split()), (0, 0));
}

#[test]
fn an_isolated_domain_shares_no_clique_but_may_be_split() {
    let mut cliques = Cliques::default();
    let isolated = ["x", "y"].map(Into::into);
    assert_eq!(
        cliques.set_isolated(&"isolated".into(), isolated),
        [split("isolated", &["x", "y"])]
    );
    assert_eq!(set(&mut cliques, "a", &["x"]), NOTHING);
    let both = [shared("a", &["x"], &["b"]), shared("b", &["x"], &["a"])];
    assert_eq!(set(&mut cliques, "b", &["x"]), both);
    assert_eq!((cliques.count_shared(), cliques.count_split()), (1, 1));
    cliques.set_isolated(&"isolated".into(), []);
    assert_eq!((cliques.count_shared(), cliques.count_split()), (1, 0));
}

#[test]
fn both_domains_get_the_finding_of_a_shared_clique_once() {
    let mut cliques = Cliques::default();
    set(&mut cliques, "a", &["x"]);
    let both = [shared("a", &["x"], &["b"]), shared("b", &["x"], &["a"])];
    assert_eq!(set(&mut cliques, "b", &["x"]), both);
    for domain in ["a", "b"] {
        assert_eq!(set(&mut cliques, domain, &["x"]), NOTHING);
    }
    assert_eq!(cliques.count_shared(), 1);
}

#[test]
fn of_many_domains_in_one_clique_each_gets_one_finding() {
    let mut cliques = Cliques::default();
    set(&mut cliques, "a", &["x"]);
    assert_eq!(set(&mut cliques, "b", &["x"]).len(), 2);
    let third = [shared("c", &["x"], &["a", "b"])];
    assert_eq!(set(&mut cliques, "c", &["x"]), third);
    assert_eq!(cliques.count_shared(), 1);
}

#[test]
fn a_finding_that_has_ended_is_reported_again_when_it_recurs() {
    let mut cliques = Cliques::default();
    set(&mut cliques, "a", &["x"]);
    set(&mut cliques, "b", &["x"]);
    assert_eq!(set(&mut cliques, "b", &[]), NOTHING);
    assert_eq!(cliques.count_shared(), 0);
    assert!(cliques.holds_any("a") && !cliques.holds_any("b"));
    let both = [shared("a", &["x"], &["c"]), shared("c", &["x"], &["a"])];
    assert_eq!(set(&mut cliques, "c", &["x"]), both);
}

#[test]
fn a_split_is_reported_for_an_additional_clique_but_not_for_a_removed_one() {
    let mut cliques = Cliques::default();
    set(&mut cliques, "a", &["x"]);
    let in_two = [split("a", &["x", "y"])];
    assert_eq!(set(&mut cliques, "a", &["x", "y"]), in_two);
    assert_eq!(set(&mut cliques, "a", &["y", "x"]), NOTHING);
    let in_three = [split("a", &["x", "y", "z"])];
    assert_eq!(set(&mut cliques, "a", &["x", "y", "z"]), in_three);
    assert_eq!(set(&mut cliques, "a", &["y", "z"]), NOTHING);
    assert_eq!(cliques.count_split(), 1);
    assert_eq!(set(&mut cliques, "a", &["z"]), NOTHING);
    assert_eq!(cliques.count_split(), 0);
}

#[test]
fn several_cliques_that_are_shared_at_once_are_one_finding_for_each_domain() {
    let mut cliques = Cliques::default();
    set(&mut cliques, "b", &["x"]);
    set(&mut cliques, "c", &["y"]);
    let all = [
        shared("a", &["x", "y"], &["b", "c"]),
        shared("b", &["x"], &["a"]),
        shared("c", &["y"], &["a"]),
        split("a", &["x", "y"]),
    ];
    assert_eq!(set(&mut cliques, "a", &["x", "y"]), all);
    assert_eq!((cliques.count_shared(), cliques.count_split()), (2, 1));
}

#[test]
fn domains_without_claims_use_no_memory() {
    let mut cliques = Cliques::default();
    for _ in 0..2 {
        set(&mut cliques, "a", &["x", "y"]);
        set(&mut cliques, "b", &["y"]);
        assert_eq!(cliques.holders().count(), 2);
        set(&mut cliques, "a", &[]);
        set(&mut cliques, "b", &[]);
    }
    assert!(cliques.of_domain.is_empty() && cliques.holders.is_empty());
}

/// Bytes of a domain alone in one clique, without texts: its entry and the entry of the clique. A small set is one
/// block of eleven names.
const DOMAIN: usize = 320;

#[test]
fn a_domain_in_one_clique_is_small_and_each_clique_name_is_stored_once() {
    let of_domain = size_of::<(Key, Box<[Clique]>)>() + size_of::<Clique>();
    let block = 11 * size_of::<Key>() + 2 * size_of::<usize>();
    let domain = of_domain + size_of::<(Clique, BTreeSet<Key>)>() + block;
    assert!(domain <= DOMAIN, "it has {domain} bytes");

    let mut cliques = Cliques::default();
    set(&mut cliques, "a", &["x"]);
    set(&mut cliques, "b", &["x"]);
    let name = |domain: &str| cliques.of_domain[domain].first().unwrap().clone();
    assert!(Arc::ptr_eq(&name("a"), &name("b")));
}
