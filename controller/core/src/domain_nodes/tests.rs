use super::*;

const CLIQUE: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";

fn key(name: &str) -> Key {
    name.into()
}

fn nodes(names: &[&str]) -> Vec<Box<str>> {
    names.iter().map(|name| Box::from(*name)).collect()
}

fn member(name: &str, status: ComputeDomainState) -> ComputeDomainNode {
    ComputeDomainNode {
        ip_address: "10.0.0.1".to_owned(),
        clique_id: CLIQUE.to_owned(),
        index: Some(3),
        status,
        ..unknown(name)
    }
}

fn ready(name: &str) -> ComputeDomainNode {
    member(name, ComputeDomainState::Ready)
}

/// All nodes are known; n1 to n3 are ready.
fn mk_known() -> DomainNodes {
    let mut known = DomainNodes::default();
    for name in ["n1", "n2", "n3"] {
        known.set_node(ready(name));
    }
    known.all_nodes_known();
    known
}

// req: MODE-21
#[test]
fn a_domain_has_the_nodes_of_its_claims_with_their_daemons_state() {
    let mut all = mk_known();
    assert!(all.set_domain(&key("a"), nodes(&["n2", "n1", "n2", "n7"])));
    let expected = vec![ready("n1"), ready("n2"), unknown("n7")];
    assert_eq!(all.of("a", true), Nodes::known(expected));
    assert!(
        !all.set_domain(&key("a"), nodes(&["n1", "n2", "n7"])),
        "nothing new"
    );
    assert!(all.set_domain(&key("a"), nodes(&["n3"])));
    assert_eq!(all.of("a", true), Nodes::known(vec![ready("n3")]));
}

// req: MODE-23
#[test]
fn a_changed_node_affects_only_the_domains_that_have_it() {
    let mut all = mk_known();
    all.set_domain(&key("a"), nodes(&["n1", "n2"]));
    all.set_domain(&key("b"), nodes(&["n2"]));
    all.set_domain(&key("c"), nodes(&["n3"]));
    let not_ready = |name| member(name, ComputeDomainState::NotReady);
    assert_eq!(all.set_node(not_ready("n2")), [key("a"), key("b")]);
    assert_eq!(
        all.set_node(not_ready("n2")),
        Vec::<Key>::new(),
        "it was so before"
    );
    assert_eq!(all.set_node(not_ready("n9")), Vec::<Key>::new());
    assert_eq!(all.of("b", true), Nodes::known(vec![not_ready("n2")]));
    all.set_domain(&key("a"), nodes(&["n1"]));
    assert_eq!(all.set_node(ready("n2")), [key("b")]);
}

// req: MODE-22
#[test]
fn a_rejected_clique_affects_the_domains_with_an_unready_node_in_it() {
    let mut all = mk_known();
    let waits = member("n1", ComputeDomainState::NotReady);
    all.set_node(waits.clone());
    all.set_domain(&key("a"), nodes(&["n1"]));
    all.set_domain(&key("b"), nodes(&["n2"]));
    all.set_domain(&key("c"), nodes(&["n7"]));
    let both = [key("a"), key("b")];

    assert_eq!(all.set_refusal(CLIQUE, Some("no quota")), both);
    let same = all.set_refusal(CLIQUE, Some("no quota"));
    assert_eq!(same, Vec::<Key>::new(), "nothing new");
    let refused = |message: &str| {
        Some(CliqueRefusal {
            clique: CLIQUE.into(),
            message: message.into(),
        })
    };
    let of_a = |refused| Nodes::Known {
        nodes: vec![waits.clone()],
        refused,
    };
    assert_eq!(all.of("a", true), of_a(refused("no quota")));
    let ready = Nodes::known(vec![ready("n2")]);
    assert_eq!(all.of("b", true), ready, "still ready");
    assert_eq!(all.of("c", true), Nodes::known(vec![unknown("n7")]));

    assert_eq!(all.set_refusal(CLIQUE, Some("denied")), both);
    assert_eq!(all.of("a", true), of_a(refused("denied")));
    assert_eq!(all.set_refusal(CLIQUE, None), both);
    assert_eq!(all.of("a", true), of_a(None));
}

// req: MODE-24
#[test]
fn nodes_are_unknown_until_the_claims_and_all_daemons_are_known() {
    let mut all = DomainNodes::default();
    assert_eq!(
        all.of("a", false),
        Nodes::known(vec![]),
        "no claim, no node"
    );
    assert_eq!(all.of("a", true), Nodes::Unknown);
    all.set_domain(&key("a"), nodes(&["n1"]));
    assert_eq!(all.of("a", true), Nodes::Unknown);
    assert_eq!(all.set_node(ready("n1")), [key("a")]);
    assert_eq!(all.of("a", true), Nodes::Unknown);
    assert_eq!(all.all_nodes_known(), [key("a")]);
    assert_eq!(all.of("a", true), Nodes::known(vec![ready("n1")]));
    all.clear();
    assert_eq!(all.of("a", true), Nodes::Unknown);
}

#[test]
fn a_deleted_domain_or_node_uses_no_memory() {
    let mut all = mk_known();
    all.set_domain(&key("a"), nodes(&["n1"]));
    assert!(all.has_any("a"));
    assert!(all.forget_domain(&key("a")));
    assert!(!all.forget_domain(&key("a")), "it no longer has any");
    assert!(!all.has_any("a"));
    for name in ["n1", "n2", "n3"] {
        assert_eq!(all.set_node(unknown(name)), Vec::<Key>::new());
    }
    assert_eq!(
        all.of_domain.len() + all.domains_on.len() + all.known.len(),
        0
    );
}

#[test]
fn after_a_clear_the_use_of_each_node_with_claims_is_reported() {
    let mut all = mk_known();
    all.set_domain(&key("a"), nodes(&["n1"]));
    assert_eq!(all.take_uses(), [("n1".into(), true)]);
    all.set_domain(&key("b"), nodes(&["n2"]));
    all.clear();
    let uses = [("n1".into(), false), ("n2".into(), false)];
    assert_eq!(all.take_uses(), uses);
}
