use std::sync::LazyLock;

use compute_domain_api::clique::CliqueDaemon;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use std::collections::{BTreeMap, HashMap};

use super::*;

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const B: &str = "bbbbbbbb-0000-0000-0000-000000000001.0";

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The members and an API server that accepts all requests.
struct Cluster {
    members: CliqueMembers,
    now: Instant,
    objects: BTreeMap<String, ComputeDomainClique>,
    writes: usize,
    look_ups: Vec<Box<str>>,
    /// The deleted Nodes.
    gone: BTreeSet<String>,
}

impl Cluster {
    fn new(max_nodes: u32) -> Self {
        Self {
            members: mk_members(max_nodes, Instant::now()),
            now: Instant::now(),
            objects: BTreeMap::new(),
            writes: 0,
            look_ups: Vec::new(),
            gone: BTreeSet::new(),
        }
    }

    /// A new controller that knows only the objects.
    fn restart(&mut self, max_nodes: u32) {
        self.members = mk_members(max_nodes, self.now);
        for object in self.objects.values() {
            self.members.apply_clique(object, self.now);
        }
    }

    fn slice(&mut self, node: &str, clique: &str) {
        let slice = mk_slice(node, &json!({ "clique": { "string": clique } }));
        self.members.apply_slice(&slice, self.now);
    }

    fn slice_without_clique(&mut self, node: &str) {
        self.members
            .apply_slice(&mk_slice(node, &json!({})), self.now);
    }

    fn wipe(&mut self, node: &str) {
        self.members
            .remove_slice(&mk_slice(node, &json!({})), self.now);
    }

    fn pod(&mut self, node: &str, patch: &Value) {
        self.members.apply_pod(&mk_pod(node, patch), self.now);
    }

    fn join(&mut self, node: &str, clique: &str) {
        self.slice(node, clique);
        self.pod(node, &json!({ "ready": "True" }));
    }

    /// A member whose slice reports the place with which `nvidia-imex` runs.
    fn join_running(&mut self, node: &str, place: &str) {
        let attributes = json!({ "clique": { "string": A }, "place": { "string": place } });
        self.members
            .apply_slice(&mk_slice(node, &attributes), self.now);
        self.pod(node, &json!({ "ready": "True" }));
    }

    /// The Node of this name has this UID now, and runs on the machine of this address.
    fn join_as(&mut self, node: &str, uid: &str, host: &str) {
        let clique = json!({ "clique": { "string": A } });
        let slice = mk_slice_of(node, uid, &clique);
        self.members.apply_slice(&slice, self.now);
        let (pod, ip) = (format!("pod-{uid}"), format!("ip-{uid}"));
        let pod = json!({ "uid": pod, "ip": ip, "host": host, "ready": "True" });
        self.pod(node, &pod);
    }

    /// The Node is deleted with its slice and its pod.
    fn leave(&mut self, node: &str) {
        self.wipe(node);
        self.members.remove_pod(&format!("pod-{node}"), self.now);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.members.due().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            while let Some((clique, step)) = self.members.next(self.now) {
                self.make(&clique.unwrap(), step);
            }
        }
        self.now = end;
    }

    fn make(&mut self, clique: &Clique, step: MemberStep) {
        match step {
            MemberStep::FindNode { node } => {
                let uid = format!("uid-{node}");
                let uid = (!self.gone.contains(&*node)).then_some(uid.as_str());
                self.members.set_node_uid(clique, &node, uid, self.now);
                self.look_ups.push(node);
                return;
            }
            MemberStep::Delete { uid, .. } => {
                self.objects.remove(&**clique);
                self.members.remove_clique(clique, &uid, self.now);
            }
            step @ (MemberStep::ReadClaims { .. } | MemberStep::DeletePod { .. }) => {
                panic!("no daemon is out of date: {step:?}")
            }
            MemberStep::Create(object) | MemberStep::Replace(object) => {
                let mut object = *object;
                object.metadata.uid = Some(format!("uid-{clique}"));
                object.metadata.resource_version = Some((self.writes + 1).to_string());
                self.members.apply_clique(&object, self.now);
                self.objects.insert(clique.to_string(), object);
            }
        }
        self.writes += 1;
    }

    /// Another client deletes the object.
    fn delete(&mut self, clique: &str) -> ComputeDomainClique {
        let uid = format!("uid-{clique}");
        self.members.remove_clique(clique, &uid, self.now);
        self.objects.remove(clique).unwrap()
    }

    fn entry(&self, clique: &str, node: &str) -> Option<&CliqueDaemon> {
        let mut daemons = self.objects.get(clique)?.spec.daemons.iter();
        daemons.find(|daemon| daemon.node_name == node)
    }

    fn index(&self, clique: &str, node: &str) -> Option<i64> {
        self.entry(clique, node).map(|daemon| daemon.index)
    }
}

/// A controller that starts now. Both clocks run alike.
fn mk_members(max_nodes: u32, now: Instant) -> CliqueMembers {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let time = "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap();
    let time = time + now.saturating_duration_since(*START);
    CliqueMembers::new(max_nodes, Clock::new(now, time))
}

fn mk_slice(node: &str, attributes: &Value) -> NodeSlice {
    mk_slice_of(node, &format!("uid-{node}"), attributes)
}

fn mk_slice_of(node: &str, uid: &str, attributes: &Value) -> NodeSlice {
    let slice = json!({
        "metadata": { "name": format!("slice-{node}"), "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid },
        ] },
        "spec": {
            "driver": "compute-domain.nvidia.com", "nodeName": node,
            "devices": [{ "name": "channel-0", "attributes": attributes }],
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    });
    NodeSlice::new(&serde_json::from_value(slice).unwrap()).unwrap()
}

/// A pod of this node; `patch` may have `uid`, `ip`, `host`, `ready`, `phase` and `deleted`.
fn mk_pod(node: &str, patch: &Value) -> Pod {
    let text = |field: &str, default: &str| patch[field].as_str().unwrap_or(default).to_owned();
    let mut pod = json!({
        "metadata": { "name": format!("pod-{node}"), "uid": text("uid", &format!("pod-{node}")) },
        "spec": { "nodeName": node, "containers": [] },
        "status": {
            "phase": text("phase", "Running"), "podIP": text("ip", &format!("ip-{node}")),
            "hostIP": text("host", &format!("host-{node}")),
            "conditions": [{ "type": "Ready", "status": text("ready", "False") }],
        },
    });
    if patch["deleted"] == true {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    }
    serde_json::from_value(pod).unwrap()
}

// req: DM-1
#[test]
fn eighteen_nodes_that_start_together_cost_at_most_thirty_six_writes_and_a_single_one_costs_two() {
    for gap in [0, 30, 90, 300, 2000] {
        let mut cluster = Cluster::new(18);
        for number in 0..18 {
            let node = format!("n{number:02}");
            cluster.slice(&node, A);
            cluster.pod(&node, &json!({}));
            cluster.pass(gap * MS);
        }
        cluster.pass(500 * MS);
        for number in 0..18 {
            cluster.pod(&format!("n{number:02}"), &json!({ "ready": "True" }));
            cluster.pass(gap * MS);
        }
        cluster.pass(MINUTE);
        assert!(cluster.writes <= 36, "{gap}: {}", cluster.writes);
        assert!(gap > 0 || cluster.writes == 2, "{}", cluster.writes);
        let daemons = &cluster.objects[A].spec.daemons;
        assert!(
            daemons
                .iter()
                .all(|it| it.status == ComputeDomainState::Ready)
        );
        let indices: Vec<_> = daemons.iter().map(|it| it.index).collect();
        assert_eq!(indices, (0..18).collect::<Vec<_>>());
        let writes = cluster.writes;
        cluster.pass(60 * MINUTE);
        assert_eq!((cluster.writes, cluster.look_ups.len()), (writes, 0));
    }
}

#[test]
fn a_member_that_leaves_costs_three_writes_and_one_look_up_and_frees_its_index_after_five_minutes()
{
    let mut cluster = Cluster::new(2);
    cluster.join("a", A);
    cluster.join("b", A);
    cluster.pass(MINUTE);
    let before = cluster.writes;
    cluster.pod("a", &json!({ "deleted": true, "ready": "True" }));
    cluster.pass(2 * MINUTE);
    let entry = cluster.entry(A, "a").unwrap().clone();
    assert_eq!(entry.status, ComputeDomainState::NotReady);
    assert_eq!(
        (entry.ip_address.as_str(), entry.pod_uid.as_str()),
        ("", "")
    );
    cluster.members.remove_pod("pod-a", cluster.now);
    cluster.wipe("a");
    cluster.gone.insert("a".to_owned());
    cluster.join("c", A);
    cluster.pass(299 * SECOND);
    assert_eq!(cluster.index(A, "c"), None);
    cluster.pass(2 * SECOND);
    assert_eq!(
        (cluster.index(A, "a"), cluster.index(A, "c")),
        (None, Some(0))
    );
    assert_eq!((cluster.writes - before, cluster.look_ups.len()), (3, 1));
}

// req: DM-3
#[test]
fn a_node_missing_in_new_lists_is_handled_like_a_deleted_one_and_forgotten() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.join("b", A);
    cluster.pass(MINUTE);
    cluster.gone.insert("a".to_owned());
    let now = cluster.now;
    cluster.members.begin_pods();
    cluster.members.begin_slices();
    cluster.join("b", A);
    cluster.members.finish_slices(now);
    cluster.members.finish_pods(now);
    cluster.pass(6 * MINUTE);
    assert!(cluster.members.observed.nodes.get("a").is_none());
    assert_eq!(
        (cluster.index(A, "a"), cluster.index(A, "b")),
        (None, Some(1))
    );
}

// req: DM-4
#[test]
fn a_node_registered_again_on_the_same_machine_keeps_its_index() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.join("b", A);
    cluster.pass(MINUTE);
    cluster.leave("a");
    cluster.pass(SECOND);
    cluster.restart(18);
    cluster.join("b", A);
    cluster.join_as("a", "uid-new", "host-a");
    cluster.pass(SECOND);
    let entry = cluster.entry(A, "a").unwrap();
    assert_eq!((entry.index, &*entry.node_uid), (0, "uid-new"));
    assert_eq!(
        (&*entry.pod_uid, &*entry.ip_address, &*entry.absent_since),
        ("pod-uid-new", "ip-uid-new", "")
    );
    assert_eq!(entry.status, ComputeDomainState::Ready);
}

// req: DM-3
#[test]
fn another_machine_with_the_nodes_name_gets_a_new_index_and_the_former_is_free_after_five_minutes()
{
    // With its own address, or before that is known.
    for host in ["host-new", ""] {
        let mut cluster = Cluster::new(3);
        cluster.join("a", A);
        cluster.join("b", A);
        cluster.pass(MINUTE);
        cluster.leave("a");
        cluster.pass(MINUTE);
        cluster.join_as("a", "uid-new", host);
        cluster.pass(SECOND);
        assert_eq!(cluster.index(A, "a"), Some(2));
        cluster.join("c", A);
        cluster.pass(200 * SECOND);
        assert_eq!(cluster.index(A, "c"), None);
        // The next leader continues the five minutes.
        cluster.restart(3);
        cluster.join_as("a", "uid-new", host);
        cluster.join("b", A);
        cluster.join("c", A);
        cluster.pass(30 * SECOND);
        assert_eq!(cluster.index(A, "c"), None);
        cluster.pass(10 * SECOND);
        assert_eq!(
            (cluster.index(A, "a"), cluster.index(A, "c")),
            (Some(2), Some(0))
        );
        assert_eq!(cluster.objects[A].spec.freed, []);
    }
}

// req: DM-3
#[test]
fn the_five_minutes_of_a_deleted_node_continue_under_the_next_leader() {
    let mut cluster = Cluster::new(2);
    cluster.join("a", A);
    cluster.join("b", A);
    cluster.pass(MINUTE);
    cluster.leave("a");
    cluster.gone.insert("a".to_owned());
    cluster.pass(200 * SECOND);
    cluster.restart(2);
    cluster.join("b", A);
    cluster.join("c", A);
    cluster.pass(95 * SECOND);
    assert_eq!(cluster.index(A, "c"), None);
    cluster.pass(10 * SECOND);
    assert_eq!(cluster.index(A, "c"), Some(0));
}

/// The object has lost the label that the watch selects.
// req: DM-3
#[test]
fn an_absent_member_keeps_its_index_when_a_new_leader_finds_the_object_late() {
    let mut cluster = Cluster::new(18);
    for node in ["a", "b"] {
        cluster.join(node, A);
        cluster.pass(MINUTE);
    }
    let object = cluster.objects[A].clone();
    cluster.members = mk_members(18, cluster.now);
    cluster.join("b", A);
    cluster.now += SECOND;
    let step = cluster.members.next(cluster.now).unwrap().1;
    assert!(matches!(step, MemberStep::Create(_)), "{step:?}");
    cluster.members.apply_clique(&object, cluster.now);
    cluster.pass(MINUTE);
    assert_eq!(
        (cluster.index(A, "a"), cluster.index(A, "b")),
        (Some(0), Some(1))
    );
}

// req: DM-4
#[test]
fn a_node_without_slice_and_daemon_keeps_its_index_while_its_node_object_exists() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    cluster.wipe("a");
    cluster.members.remove_pod("pod-a", cluster.now);
    cluster.pass(24 * 60 * MINUTE);
    assert_eq!(cluster.index(A, "a"), Some(0));
    // Finally once an hour.
    assert!(
        (4..40).contains(&cluster.look_ups.len()),
        "{:?}",
        cluster.look_ups
    );
}

// req: DM-4
#[test]
fn an_absent_slice_or_attribute_changes_nothing_also_for_a_controller_that_starts() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    let before = cluster.writes;
    cluster.slice_without_clique("a");
    cluster.pass(60 * MINUTE);
    cluster.wipe("a");
    cluster.pass(60 * MINUTE);
    cluster.restart(18);
    cluster.pod("a", &json!({ "ready": "True" }));
    cluster.pass(60 * MINUTE);
    assert_eq!((cluster.writes, cluster.look_ups.len()), (before, 0));
    // Changes of its daemon are still applied.
    cluster.pod("a", &json!({ "ready": "False" }));
    cluster.pass(MINUTE);
    assert_eq!(
        cluster.entry(A, "a").unwrap().status,
        ComputeDomainState::NotReady
    );
}

// req: DM-6
#[test]
fn a_node_without_a_free_index_is_reported_once_by_name_and_the_others_work() {
    let mut cluster = Cluster::new(2);
    for node in ["a", "b", "c"] {
        cluster.join(node, A);
        cluster.pass(MINUTE);
    }
    let unplaced = cluster.members.take_unplaced();
    let nodes: Vec<_> = unplaced
        .iter()
        .map(|it| (&*it.node, &*it.clique, it.max_nodes))
        .collect();
    assert_eq!(nodes, [("c", A, 2)]);
    assert!(unplaced[0].object_uid.is_some());
    let counts = MemberCounts {
        ready: 2,
        not_ready: 0,
        surplus: 1,
    };
    assert_eq!(cluster.members.counts(), counts);
    cluster.join("d", B);
    cluster.pod("b", &json!({ "ready": "False" }));
    cluster.pass(MINUTE);
    let counts = MemberCounts {
        ready: 2,
        not_ready: 1,
        surplus: 1,
    };
    assert_eq!(cluster.members.counts(), counts);
    cluster.pod("c", &json!({ "ready": "False" }));
    cluster.pass(60 * MINUTE);
    assert_eq!(cluster.members.take_unplaced(), []);
    assert_eq!(cluster.index(A, "c"), None);
}

// req: DM-3
#[test]
fn a_node_that_changes_its_clique_joins_the_new_one_at_once_and_frees_its_index_later() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    cluster.slice("a", B);
    cluster.pass(MINUTE);
    assert_eq!(cluster.index(B, "a"), Some(0));
    let left = cluster.entry(A, "a").unwrap().clone();
    assert_eq!(
        (left.ip_address.as_str(), left.status),
        ("", ComputeDomainState::NotReady)
    );
    // Its daemon may still run with the former list.
    cluster.pod("a", &json!({ "ready": "False" }));
    cluster.pass(60 * MINUTE);
    assert_eq!(cluster.index(A, "a"), Some(0));
    cluster.pod("a", &json!({ "ready": "True" }));
    cluster.pass(6 * MINUTE);
    assert_eq!(
        (cluster.index(A, "a"), cluster.index(B, "a")),
        (None, Some(0))
    );
    // The object is deleted, since it has no members.
    cluster.pass(10 * MINUTE);
    assert!(!cluster.objects.contains_key(A));
}

// req: DM-2
#[test]
fn the_index_that_has_been_free_for_the_longest_time_is_assigned_first() {
    let mut cluster = Cluster::new(4);
    for node in ["a", "b", "c", "d"] {
        cluster.join(node, A);
        cluster.pass(MINUTE);
    }
    for node in ["c", "a"] {
        cluster
            .members
            .remove_pod(&format!("pod-{node}"), cluster.now);
        cluster.wipe(node);
        cluster.gone.insert(node.to_owned());
        cluster.pass(10 * MINUTE);
    }
    cluster.join("e", A);
    cluster.pass(MINUTE);
    cluster.join("f", A);
    cluster.pass(MINUTE);
    assert_eq!(
        (cluster.index(A, "e"), cluster.index(A, "f")),
        (Some(2), Some(0))
    );
}

// req: DM-5
#[test]
fn the_length_of_the_lists_changes_only_while_no_daemon_of_the_clique_runs() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    cluster.restart(36);
    cluster.join("a", A);
    cluster.pass(60 * MINUTE);
    assert_eq!(cluster.objects[A].spec.list_length, Some(18));
    cluster.pod("a", &json!({ "deleted": true }));
    cluster.pass(60 * MINUTE);
    assert_eq!(cluster.objects[A].spec.list_length, Some(18));
    cluster.members.remove_pod("pod-a", cluster.now);
    cluster.pass(MINUTE);
    assert_eq!(cluster.objects[A].spec.list_length, Some(36));
}

#[test]
fn a_deleted_object_is_created_again_with_the_same_indices() {
    let mut cluster = Cluster::new(18);
    cluster.join("b", A);
    assert!(!cluster.members.knows(A));
    cluster.pass(MINUTE);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    assert!(cluster.members.knows(A));
    let before = cluster.delete(A);
    assert!(!cluster.members.knows(A));
    cluster.pass(MINUTE);
    assert_eq!(cluster.objects[A].spec, before.spec);
}

/// Another client edits the object.
fn edit(cluster: &mut Cluster, change: impl FnOnce(&mut ComputeDomainClique)) {
    let object = cluster.objects.get_mut(A).unwrap();
    change(object);
    cluster.writes += 1;
    object.metadata.resource_version = Some(cluster.writes.to_string());
    cluster.members.apply_clique(object, cluster.now);
    cluster.pass(MINUTE);
}

// req: DM-4, DM-5, DM-7
#[test]
fn edits_of_an_object_are_reverted_and_change_no_index() {
    let changes: [fn(&mut ComputeDomainClique); 13] = [
        |it| {
            let mut invented = it.spec.daemons[0].clone();
            (invented.node_name, invented.index) = ("invented".to_owned(), 7);
            it.spec.daemons.push(invented);
        },
        |it| {
            it.spec.daemons[0].index = 1;
            it.spec.daemons[1].index = 0;
        },
        |it| it.spec.daemons[1].index = 5,
        |it| it.spec.list_length = Some(20),
        |it| {
            it.spec.daemons[0].node_uid = "forged".to_owned();
            it.spec.daemons[0].pod_uid = "forged".to_owned();
            it.spec.daemons[0].ip_address = "10.9.9.9".to_owned();
            it.spec.daemons[0].host_ip = "10.9.9.9".to_owned();
        },
        |it| {
            it.spec.daemons[0].absent_since = "2020-01-01T00:00:00Z".to_owned();
            it.spec.daemons.swap(0, 1);
        },
        |it| it.spec.daemons[0].index = 1,
        |it| it.spec.daemons[1].index = 0,
        |it| it.spec.daemons[1].index = 18,
        |it| it.spec.daemons[0].index = -1,
        |it| it.spec.daemons.clear(),
        |it| it.spec.list_length = None,
        |it| {
            it.spec.list_length = None;
            it.spec.daemons[1].index = 20;
        },
    ];
    for change in changes {
        let mut cluster = Cluster::new(18);
        cluster.join("a", A);
        cluster.pass(MINUTE);
        cluster.join("b", A);
        cluster.pass(MINUTE);
        cluster.restart(36);
        cluster.join("a", A);
        cluster.join("b", A);
        let before = cluster.objects[A].spec.clone();
        edit(&mut cluster, change);
        assert_eq!(cluster.objects[A].spec, before);
        // A reverted edit leaves no trace.
        cluster.delete(A);
        cluster.pass(MINUTE);
        assert_eq!(cluster.objects[A].spec, before);
    }
}

// req: DM-8
#[test]
fn a_rejection_ends_when_nothing_has_to_be_written() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    assert_eq!(cluster.members.take_accepted(), []);
    cluster.pod("a", &json!({ "ready": "False" }));
    cluster.now += SECOND;
    let clique = Clique::from(A);
    let step = cluster.members.next(cluster.now);
    assert!(
        matches!(step, Some((_, MemberStep::Replace(_)))),
        "{step:?}"
    );
    assert_eq!(cluster.members.refused(&clique, cluster.now), 1);
    cluster.pass(100 * MS);
    assert_eq!(cluster.members.take_accepted(), []);
    cluster.pod("a", &json!({ "ready": "True" }));
    cluster.pass(500 * MS);
    assert_eq!(cluster.members.take_accepted(), [clique]);
}

// req: DM-8
#[test]
fn a_rejected_deletion_is_retried_with_back_off() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    cluster.leave("a");
    cluster.gone.insert("a".to_owned());
    cluster.pass(6 * MINUTE);
    let (clique, end) = (Clique::from(A), cluster.now + 30 * MINUTE);
    let mut tries = 0;
    while let Some(at) = cluster.members.due().filter(|at| *at <= end) {
        if let Some((_, step)) = cluster.members.next(at) {
            assert!(matches!(step, MemberStep::Delete { .. }), "{step:?}");
            cluster.members.failed(Some(&clique), &step, at);
            cluster.members.refused(&clique, at);
            tries += 1;
        }
    }
    assert!((20..40).contains(&tries), "{tries}");
}

/// Edits and deletions just before the next controller begins to lead. They are not reverted.
// req: DM-7
#[test]
fn a_new_leader_trusts_the_running_places_more_than_the_object() {
    let changes: [fn(&mut Cluster); 7] = [
        |it| drop(it.objects.remove(A)),
        |it| {
            let daemons = &mut it.objects.get_mut(A).unwrap().spec.daemons;
            (daemons[0].index, daemons[1].index) = (1, 0);
        },
        // "c" does not run, so only the object has its place.
        |it| {
            let daemons = &mut it.objects.get_mut(A).unwrap().spec.daemons;
            (daemons[0].index, daemons[2].index) = (2, 0);
        },
        |it| it.objects.get_mut(A).unwrap().spec.list_length = Some(1),
        |it| {
            let spec = &mut it.objects.get_mut(A).unwrap().spec;
            (spec.list_length, spec.daemons[1].index) = (Some(40), 30);
        },
        |it| {
            let spec = &mut it.objects.get_mut(A).unwrap().spec;
            (spec.list_length, spec.daemons[2].index) = (Some(40), 30);
        },
        |it| it.objects.get_mut(A).unwrap().spec.daemons.clear(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut cluster = Cluster::new(18);
        for node in ["a", "b", "c"] {
            cluster.join(node, A);
            cluster.pass(MINUTE);
        }
        let before = cluster.objects[A].spec.clone();
        change(&mut cluster);
        cluster.restart(36);
        cluster.join("c", A);
        // The order of the names differs from the order of the places.
        cluster.join_running("b", "1/18");
        cluster.join_running("a", "0/18");
        cluster.pass(MINUTE);
        assert_eq!(cluster.objects[A].spec, before, "{number}");
    }
}

// req: DM-7
#[test]
fn a_member_is_compared_with_its_place_also_after_other_members() {
    let mut cluster = Cluster::new(18);
    for node in ["a", "b", "c"] {
        cluster.join(node, A);
        cluster.pass(MINUTE);
    }
    let before = cluster.objects[A].spec.clone();
    let daemons = &mut cluster.objects.get_mut(A).unwrap().spec.daemons;
    (daemons[0].index, daemons[1].index) = (1, 0);
    cluster.restart(18);
    for (node, place) in [("c", "2/18"), ("b", "1/18"), ("a", "0/18")] {
        cluster.join_running(node, place);
        cluster.pass(MINUTE);
    }
    assert_eq!(cluster.objects[A].spec, before);
}

// req: DM-7
#[test]
fn an_index_with_which_nvidia_imex_runs_is_not_assigned_although_the_daemon_has_no_pod() {
    let mut cluster = Cluster::new(2);
    let running = json!({ "clique": { "string": A }, "place": { "string": "0/2" } });
    let slice = mk_slice("b", &running);
    cluster.members.apply_slice(&slice, cluster.now);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    assert_eq!(cluster.index(A, "a"), Some(1));
    cluster.join_running("b", "0/2");
    cluster.pass(MINUTE);
    assert_eq!(cluster.index(A, "b"), Some(0));
}

// req: DM-2
#[test]
fn an_index_that_two_nodes_report_stays_with_the_node_in_the_object() {
    let mut cluster = Cluster::new(18);
    for node in ["a", "b"] {
        cluster.join(node, A);
        cluster.pass(MINUTE);
    }
    let before = cluster.objects[A].spec.clone();
    cluster.restart(18);
    cluster.join_running("a", "1/18");
    cluster.join_running("b", "1/18");
    cluster.pass(MINUTE);
    assert_eq!(cluster.objects[A].spec, before);
}

#[test]
fn a_deleted_object_gets_the_length_of_the_running_daemons() {
    let mut cluster = Cluster::new(18);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    cluster.restart(36);
    cluster.join("a", A);
    cluster.delete(A);
    cluster.pass(MINUTE);
    assert_eq!(cluster.objects[A].spec.list_length, Some(18));
}

#[test]
fn a_pod_with_ended_containers_is_not_a_daemon() {
    assert!(DaemonPod::new(&mk_pod("a", &json!({ "phase": "Failed" }))).is_none());
    let ending = mk_pod("a", &json!({ "deleted": true, "ready": "True" }));
    assert!(!DaemonPod::new(&ending).unwrap().ready);
}

// req: DM-3
#[test]
fn a_pod_that_is_being_deleted_keeps_the_index_of_a_node_that_has_left_the_clique() {
    let mut cluster = Cluster::new(1);
    cluster.join("a", A);
    cluster.pass(MINUTE);
    cluster.pod("a", &json!({ "deleted": true }));
    cluster.pass(SECOND);
    cluster.slice("a", B);
    cluster.join("b", A);
    cluster.pass(60 * MINUTE);
    assert_eq!(
        (cluster.index(A, "a"), cluster.index(A, "b")),
        (Some(0), None)
    );
    cluster.members.remove_pod("pod-a", cluster.now);
    cluster.pass(6 * MINUTE);
    assert_eq!(
        (cluster.index(A, "a"), cluster.index(A, "b")),
        (None, Some(0))
    );
}

mod node_state;
mod rollout;
