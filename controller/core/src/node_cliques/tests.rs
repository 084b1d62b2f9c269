use serde_json::json;

use super::*;

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const B: &str = "aaaaaaaa-0000-0000-0000-000000000001.8";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const NOT_AN_HOUR: Duration = HOUR.saturating_sub(SECOND);

/// A slice of `node` with one device.
fn mk_slice(node: &str, device: &serde_json::Value) -> NodeSlice {
    mk_named(&format!("{node}-slice"), node, &json!([device]))
}

fn mk_named(name: &str, node: &str, devices: &serde_json::Value) -> NodeSlice {
    mk_owned(name, (node, "uid"), devices)
}

fn mk_owned(name: &str, (node, uid): (&str, &str), devices: &serde_json::Value) -> NodeSlice {
    let slice = json!({
        "metadata": { "name": name, "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid },
        ] },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    });
    NodeSlice::new(&serde_json::from_value(slice).unwrap()).unwrap()
}

fn in_clique(node: &str, clique: &str) -> NodeSlice {
    mk_slice(
        node,
        &json!({ "name": "channel-0", "attributes": { "clique": { "string": clique } } }),
    )
}

/// A slice of the Go driver, or our slice while the fabric is not known.
fn without_information(node: &str) -> NodeSlice {
    mk_slice(
        node,
        &json!({ "name": "channel-0", "attributes": { "type": { "string": "channel" } } }),
    )
}

fn without_clique(node: &str) -> NodeSlice {
    let taints = json!([{ "key": "compute-domain.nvidia.com/no-clique", "effect": "NoSchedule" }]);
    mk_slice(node, &json!({ "name": "channel-0", "taints": taints }))
}

/// Nodes with these labels, before any slice is known.
fn mk_nodes(labels: &[(&str, &str)]) -> NodeCliques {
    let labels = labels
        .iter()
        .map(|(node, value)| ((*node).into(), (*value).into()));
    NodeCliques::new(labels.collect())
}

/// The next writes, as `node=value`.
fn writes(nodes: &mut NodeCliques, now: Instant) -> Vec<String> {
    std::iter::from_fn(|| nodes.next_label(now))
        .map(|write| format!("{}={}", write.node, write.clique.as_deref().unwrap_or("-")))
        .collect()
}

fn changed(nodes: &mut NodeCliques) -> Vec<(String, bool)> {
    let changed = nodes.take_changed().into_iter();
    changed
        .map(|(clique, has_nodes)| (clique.to_string(), has_nodes))
        .collect()
}

#[test]
fn only_wrong_labels_are_written_and_each_once() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("right", A), ("wrong", B), ("no-plugin", A)]);
    nodes.begin();
    for node in ["right", "wrong", "new"] {
        assert_eq!(nodes.apply(in_clique(node, A), now), None, "{node}");
    }
    nodes.finish();
    assert_eq!(
        writes(&mut nodes, now),
        [format!("new={A}"), format!("wrong={A}")]
    );
    for node in ["right", "wrong", "new"] {
        nodes.apply(in_clique(node, A), now);
    }
    assert_eq!(writes(&mut nodes, now + HOUR * 2), [""; 0]);
    assert_eq!(nodes.due(), None, "nothing to wait for");
}

#[test]
fn a_node_that_changes_its_clique_gets_the_new_label_and_is_reported_once() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("n", A)]);
    nodes.apply(in_clique("n", A), now);
    let change = nodes.apply(in_clique("n", B), now).unwrap();
    assert_eq!((&*change.from, change.to.as_deref()), (A, Some(B)));
    assert_eq!(nodes.apply(in_clique("n", B), now), None);
    assert_eq!(writes(&mut nodes, now), [format!("n={B}")]);
}

#[test]
fn slices_without_information_about_the_clique_change_nothing() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("n", A), ("of-go", B)]);
    nodes.apply(in_clique("n", A), now);
    changed(&mut nodes);
    for slice in [
        without_information("n"),
        mk_named("n-slice", "n", &json!([])),
        mk_named("n-slice", "n", &json!(null)),
        in_clique("n", "not-a-clique"),
        in_clique("n", &A.to_uppercase()),
        without_information("of-go"),
    ] {
        assert_eq!(nodes.apply(slice.clone(), now), None, "{slice:?}");
        assert_eq!(writes(&mut nodes, now), [""; 0], "{slice:?}");
    }
    nodes.remove(&in_clique("n", A));
    assert_eq!(
        writes(&mut nodes, now),
        [""; 0],
        "an absent slice removes nothing"
    );
}

#[test]
fn only_a_device_with_the_no_clique_taint_removes_the_label() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("n", A), ("other", A)]);
    nodes.apply(in_clique("n", A), now);
    let change = nodes.apply(without_clique("n"), now).unwrap();
    assert_eq!((&*change.from, change.to), (A, None));
    nodes.apply(without_clique("other"), now);
    nodes.apply(without_clique("never-had-one"), now);
    assert_eq!(writes(&mut nodes, now), ["n=-", "other=-"]);
    nodes.apply(without_information("n"), now);
    assert_eq!(writes(&mut nodes, now), [""; 0]);
}

#[test]
fn a_foreign_label_is_left_alone_until_the_clique_changes_or_an_hour_has_passed() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("n", "theirs")]);
    nodes.apply(in_clique("n", A), now);
    let write = nodes.next_label(now).unwrap();
    nodes.owned_by_others(write, now);
    nodes.apply(in_clique("n", A), now);
    assert_eq!(writes(&mut nodes, now + NOT_AN_HOUR), [""; 0]);
    let write = nodes.next_label(now + HOUR).unwrap();
    nodes.owned_by_others(write, now + HOUR);
    nodes.apply(in_clique("n", B), now + HOUR);
    assert_eq!(writes(&mut nodes, now + HOUR), [format!("n={B}")]);
}

#[test]
fn a_failed_write_is_retried_with_the_current_value() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[]);
    nodes.apply(in_clique("n", A), now);
    let write = nodes.next_label(now).unwrap();
    nodes.failed(write, now);
    assert_eq!(writes(&mut nodes, now), [""; 0]);
    assert_eq!(nodes.due(), Some(now + RETRY_AFTER));
    nodes.apply(in_clique("n", B), now + SECOND);
    assert_eq!(writes(&mut nodes, now + RETRY_AFTER), [format!("n={B}")]);
}

#[test]
fn a_slice_that_is_deleted_and_published_again_may_belong_to_a_new_node_without_label() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("n", A)]);
    nodes.apply(in_clique("n", A), now);
    nodes.finish();
    assert_eq!(writes(&mut nodes, now), [""; 0]);
    nodes.remove(&in_clique("n", A));
    assert_eq!(nodes.apply(in_clique("n", A), now), None, "the same clique");
    assert_eq!(writes(&mut nodes, now), [format!("n={A}")]);
    // The driver was reloaded in another clique while kubelet was down.
    nodes.remove(&in_clique("n", A));
    let change = nodes.apply(in_clique("n", B), now).unwrap();
    assert_eq!((&*change.from, change.to.as_deref()), (A, Some(B)));
}

#[test]
fn a_clique_has_nodes_from_the_first_slice_to_the_last() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[]);
    nodes.apply(in_clique("n1", A), now);
    nodes.apply(in_clique("n2", A), now);
    assert_eq!(changed(&mut nodes), [(A.to_owned(), true)]);
    nodes.apply(in_clique("n1", B), now);
    assert_eq!(changed(&mut nodes), [(B.to_owned(), true)]);
    nodes.apply(without_information("n2"), now);
    assert_eq!(changed(&mut nodes), []);
    // The watch may deliver a node's new slice before the deletion of the old one.
    nodes.apply(mk_named("new", "n2", &json!([])), now);
    nodes.remove(&in_clique("n2", A));
    assert_eq!(changed(&mut nodes), []);
    nodes.remove(&mk_named("new", "n2", &json!([])));
    assert_eq!(changed(&mut nodes), [(A.to_owned(), false)]);
    nodes.apply(in_clique("n3", A), now);
    nodes.begin();
    nodes.apply(in_clique("n3", A), now);
    nodes.finish();
    assert_eq!(
        changed(&mut nodes),
        [(A.to_owned(), true), (B.to_owned(), false)]
    );
}

#[test]
fn a_new_node_of_the_same_name_gets_its_label_though_its_slice_was_taken_over() {
    let now = Instant::now();
    let mut nodes = mk_nodes(&[("n", A)]);
    let device = json!([{ "name": "channel-0", "attributes": { "clique": { "string": A } } }]);
    nodes.apply(mk_owned("s", ("n", "old"), &device), now);
    assert_eq!(writes(&mut nodes, now), [""; 0]);
    nodes.apply(mk_owned("s", ("n", "new"), &device), now);
    let write = nodes.next_label(now).unwrap();
    assert_eq!((&*write.uid, write.clique.as_deref()), ("new", Some(A)));
}

#[test]
fn slices_of_other_drivers_or_without_a_node_are_ignored() {
    let pool = json!({ "name": "p", "generation": 1, "resourceSliceCount": 1 });
    let owner = |kind: &str, name: &str| json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u" }]);
    let (ours, gpus) = ("compute-domain.nvidia.com", "gpu.nvidia.com");
    for (driver, place, owners) in [
        (gpus, "nodeName", owner("Node", "n")),
        (ours, "allNodes", owner("Node", "n")),
        (ours, "nodeName", json!([])),
        (ours, "nodeName", owner("Node", "other")),
        (ours, "nodeName", owner("Pod", "n")),
    ] {
        let mut spec = json!({ "driver": driver, "pool": pool });
        spec[place] = if place == "nodeName" {
            json!("n")
        } else {
            json!(true)
        };
        let slice = json!({ "metadata": { "name": "s", "ownerReferences": owners }, "spec": spec });
        let slice = serde_json::from_value(slice).unwrap();
        assert_eq!(NodeSlice::new(&slice), None, "{slice:?}");
    }
}

#[test]
fn a_removed_or_changed_label_is_written_again_and_a_foreign_one_is_left() {
    let now = Instant::now();
    let mut cliques = NodeCliques::default();
    for node in ["a", "b", "c", "d"] {
        cliques.apply(in_clique(node, A), now);
    }
    let mut writes = || {
        let mut written = Vec::new();
        while let Some(write) = cliques.next_label(now) {
            written.push(write);
        }
        written
    };
    let theirs = writes().into_iter().find(|write| &*write.node == "d");
    cliques.owned_by_others(theirs.unwrap(), now);
    let labels = [("b", "other"), ("c", A), ("d", "theirs")];
    let labels = labels.map(|(node, label)| (node.into(), label.into()));
    let mut labels = HashMap::from(labels);
    cliques.compare_labels(&labels, now);
    let names = |cliques: &mut NodeCliques| {
        let writes = std::iter::from_fn(|| cliques.next_label(now));
        let mut names: Vec<_> = writes.map(|write| write.node.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&mut cliques), ["a", "b"]);
    // The former owner has removed it.
    labels.remove("d");
    labels.extend([("a", A), ("b", A)].map(|(node, label)| (node.into(), label.into())));
    cliques.compare_labels(&labels, now);
    assert_eq!(names(&mut cliques), ["d"]);
}
