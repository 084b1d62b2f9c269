use super::*;

const CLIQUE: &str = "a1b2c3d4-e5f6-7890-abcd-ef1234567890.0";

fn mk_me() -> NodeIdentity {
    NodeIdentity {
        node: "node-b".to_owned(),
        pod_uid: "pod-b".to_owned(),
        address: "10.0.0.2".parse().unwrap(),
    }
}

fn mk_daemon(node: &str, index: i64, address: &str) -> CliqueDaemon {
    CliqueDaemon {
        node_name: node.to_owned(),
        ip_address: address.to_owned(),
        index,
        ..CliqueDaemon::default()
    }
}

fn mk_object() -> ComputeDomainCliqueRoot {
    ComputeDomainCliqueRoot {
        daemons: vec![
            mk_daemon("node-a", 0, "10.0.0.1"),
            mk_daemon("node-b", 1, "10.0.0.2"),
            mk_daemon("node-c", 2, ""),
        ],
        list_length: Some(4),
        name_scheme: Some(NameScheme::Hash10),
        ..ComputeDomainCliqueRoot::default()
    }
}

fn read(object: &ComputeDomainCliqueRoot) -> Result<Membership, String> {
    Membership::read(CLIQUE, object, &mk_me())
}

// req: DAEMON-3
#[test]
fn a_member_has_its_index_and_the_peers_with_an_address() {
    let membership = read(&mk_object()).unwrap();
    assert_eq!(
        (
            membership.start_config.index,
            membership.start_config.length
        ),
        (1, 4)
    );
    let peers = [(0, "10.0.0.1".parse().unwrap())];
    assert_eq!(membership.peers, Peers::from(peers));
    assert!(!membership.is_draining);
}

// req: DAEMON-3
#[test]
fn a_node_that_is_not_a_member_gets_the_reason() {
    type Change = fn(&mut ComputeDomainCliqueRoot);
    let cases: [(Change, &str); 8] = [
        (|it| it.list_length = None, "has no listLength"),
        (
            |it| it.name_scheme = None,
            "has no listLength or nameScheme",
        ),
        (|it| drop(it.daemons.remove(1)), "node node-b is not in"),
        (
            |it| it.daemons[1].index = 4,
            "the index of node node-b is 4",
        ),
        (
            |it| it.daemons[1].index = -1,
            "the index of node node-b is -1",
        ),
        (
            |it| it.daemons[1].ip_address = "10.0.0.9".to_owned(),
            "\"10.0.0.9\" for this node",
        ),
        (
            |it| it.daemons[1].ip_address.clear(),
            "has not written the address of this pod, 10.0.0.2,",
        ),
        (
            |it| it.daemons[0].index = 1,
            "nodes node-b and node-a have the same index 1",
        ),
    ];
    for (change, reason) in cases {
        let mut object = mk_object();
        change(&mut object);
        let error = read(&object).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_peer_with_this_pods_address_or_a_bad_index_is_left_out() {
    let mut object = mk_object();
    object.daemons[0].ip_address = "10.0.0.2".to_owned();
    object.daemons.push(mk_daemon("node-d", 99, "10.0.0.4"));
    assert_eq!(read(&object).unwrap().peers, Peers::new());
}

// req: DAEMON-10
#[test]
fn only_a_draining_mark_for_this_pod_drains_it() {
    for (mark, drains) in [("pod-b", true), ("pod-before", false), ("", false)] {
        let mut object = mk_object();
        object.daemons[1].draining = mark.to_owned();
        assert_eq!(read(&object).unwrap().is_draining, drains, "{mark}");
    }
}
