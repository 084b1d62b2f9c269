//! The status of a node in the `ComputeDomains` that have it.

use compute_domain_api::crd::ComputeDomainNode;

use super::*;

impl Cluster {
    /// Address, clique, index and whether it is ready.
    fn node(&self, name: &str) -> (String, String, i64, bool) {
        let ComputeDomainNode {
            ip_address,
            clique_id,
            index,
            status,
            ..
        } = self.members.node(name);
        let ready = status == ComputeDomainState::Ready;
        (ip_address, clique_id, index.unwrap(), ready)
    }

    fn changed(&mut self) -> Vec<String> {
        let changed = self.members.take_changed_nodes();
        changed.into_iter().map(String::from).collect()
    }
}

fn is(address: &str, clique: &str, index: i64, ready: bool) -> (String, String, i64, bool) {
    (address.to_owned(), clique.to_owned(), index, ready)
}

// req: MODE-21
#[test]
fn a_member_has_the_status_in_its_cliques_object() {
    let mut cluster = Cluster::new(18);
    cluster.join("n1", A);
    cluster.join("n2", A);
    let address = |cluster: &Cluster, node| cluster.entry(A, node).unwrap().ip_address.clone();
    assert!(!cluster.node("n2").3, "no object has it yet");
    cluster.pass(SECOND);
    let of_second = address(&cluster, "n2");
    assert_eq!(cluster.node("n2"), is(&of_second, A, 1, true));
    cluster.pod("n2", &json!({ "ready": "False" }));
    assert!(!cluster.node("n2").3, "its object may never be written");
    assert!(cluster.changed().contains(&"n2".to_owned()));
    cluster.pass(SECOND);
    assert_eq!(cluster.node("n2"), is(&of_second, A, 1, false));
    // kubelet starts.
    cluster.wipe("n2");
    assert_eq!(cluster.node("n2"), is(&of_second, A, 1, false));
    cluster.restart(18);
    assert_eq!(cluster.node("n2"), is(&of_second, A, 1, false));
}

// req: MODE-21
#[test]
fn a_node_that_moves_is_not_a_member_until_its_new_clique_has_it() {
    let mut cluster = Cluster::new(18);
    cluster.join("n1", A);
    cluster.pass(SECOND);
    let (address, ..) = cluster.node("n1");
    cluster.slice("n1", B);
    assert_eq!(cluster.node("n1"), is(&address, B, -1, false));
    cluster.pass(SECOND);
    assert!(
        cluster.entry(A, "n1").is_some(),
        "its index there is not free yet"
    );
    assert_eq!(cluster.node("n1"), is(&address, B, 0, true));
}

// req: MODE-21
#[test]
fn a_node_without_a_free_index_is_not_ready_even_if_its_pod_is() {
    let mut cluster = Cluster::new(1);
    cluster.join("n1", A);
    cluster.pass(SECOND);
    cluster.join("n2", A);
    cluster.pass(SECOND);
    let (_, clique, index, ready) = cluster.node("n2");
    assert_eq!((&*clique, index, ready), (A, -1, false));
}

// req: MODE-21
#[test]
fn a_node_without_a_clique_is_as_ready_as_its_daemons_pod() {
    let mut cluster = Cluster::new(18);
    cluster.slice_without_clique("n1");
    assert_eq!(cluster.node("n1"), is("", "", -1, false));
    cluster.pod("n1", &json!({ "ready": "True" }));
    let (address, ..) = cluster.node("n1");
    assert_ne!(address, "");
    assert_eq!(cluster.node("n1"), is(&address, "", -1, true));
    cluster.pod("n1", &json!({ "ready": "False" }));
    assert_eq!(cluster.node("n1"), is(&address, "", -1, false));
    assert_eq!(cluster.node("unheard-of"), is("", "", -1, false));
}

// req: MODE-23
#[test]
fn only_changed_nodes_are_returned_and_each_once() {
    let mut cluster = Cluster::new(18);
    for node in ["n1", "n2", "n3"] {
        cluster.join(node, A);
    }
    cluster.pass(SECOND);
    assert_eq!(cluster.changed(), ["n1", "n2", "n3"]);
    cluster.pass(MINUTE);
    assert_eq!(cluster.changed(), [""; 0]);
    cluster.pod("n2", &json!({ "ready": "False" }));
    cluster.pass(SECOND);
    assert_eq!(cluster.changed(), ["n2"]);
}

// req: MODE-21
#[test]
fn an_edited_or_deleted_object_changes_every_affected_node() {
    let mut cluster = Cluster::new(18);
    cluster.join("n1", A);
    cluster.join("n2", A);
    cluster.pass(SECOND);
    cluster.changed();
    let uid = format!("uid-{A}");
    cluster.members.remove_clique(A, &uid, cluster.now);
    assert_eq!(cluster.changed(), ["n1", "n2"]);
    assert!(!cluster.node("n1").3);
    cluster.pass(SECOND);
    assert_eq!(cluster.changed(), ["n1", "n2"]);
    assert!(cluster.node("n1").3);
    let mut edited = cluster.objects[A].clone();
    edited.metadata.resource_version = Some("1000".to_owned());
    edited.spec.daemons[1].ip_address = "10.9.9.9".to_owned();
    cluster.members.apply_clique(&edited, cluster.now);
    assert_eq!(cluster.changed(), ["n2"]);
    assert_eq!(cluster.node("n2").0, "10.9.9.9");
    cluster.members.begin_cliques();
    cluster.members.finish_cliques(cluster.now);
    assert_eq!(cluster.changed(), ["n1", "n2"]);
}
