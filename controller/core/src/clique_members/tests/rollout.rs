//! Replacing outdated daemons.

use super::*;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// A cluster with daemons of one `DaemonSet`, which creates a new pod for each deleted one.
struct Rollout {
    cluster: Cluster,
    template: &'static str,
    /// The number of pods that each node has had.
    pods: HashMap<String, usize>,
    /// Whether new daemons become ready.
    works: bool,
    /// Nodes with a prepared claim, and those with an allocated one.
    prepared: BTreeSet<String>,
    allocated: BTreeSet<String>,
    /// The deleted pods' nodes with the reasons, in order.
    deleted: Vec<(String, Replacement)>,
    reads: usize,
    /// The versions required for these deletions.
    versions: Vec<Option<Box<str>>>,
    /// By node.
    objects: BTreeMap<String, Pod>,
}

impl Rollout {
    /// Three nodes of one clique, whose daemons are from the template `old`.
    fn new() -> Self {
        let mut rollout = Self {
            cluster: Cluster::new(18),
            template: "old",
            pods: HashMap::new(),
            works: true,
            prepared: BTreeSet::new(),
            allocated: BTreeSet::new(),
            deleted: Vec::new(),
            reads: 0,
            versions: Vec::new(),
            objects: BTreeMap::new(),
        };
        rollout.update("old");
        for node in NODES {
            rollout.add(node, A);
        }
        rollout.pass(MINUTE);
        rollout
    }

    /// Updates are forced after an hour, and each node has a prepared claim.
    fn with_force_after_an_hour_and_claims() -> Self {
        let mut rollout = Self::new();
        rollout.set_force_after(60 * MINUTE);
        let now = rollout.cluster.now;
        for node in NODES {
            rollout.prepared.insert(node.to_owned());
            rollout.allocated.insert(node.to_owned());
            rollout.cluster.members.set_in_use(node, true, now);
        }
        rollout
    }

    fn add(&mut self, node: &str, clique: &str) {
        self.cluster.slice(node, clique);
        self.start_pod(node);
    }

    fn update(&mut self, template: &'static str) {
        self.template = template;
        self.say(template);
    }

    /// The `DaemonSet` gets this template annotation. Without an update, a user has edited only the annotation.
    fn say(&mut self, template: &str) {
        let now = self.cluster.now;
        let members = &mut self.cluster.members;
        members.apply_template("set", Some(template), now);
    }

    fn set_force_after(&mut self, after: Duration) {
        let members = &mut self.cluster.members;
        let forced = std::mem::replace(members, mk_members(18, Instant::now()));
        *members = forced.with_force_after(Some(after));
    }

    fn pod_of(&self, node: &str) -> String {
        format!(
            "{node}-{}",
            self.pods.get(node).copied().unwrap_or_default()
        )
    }

    fn start_pod(&mut self, node: &str) {
        *self.pods.entry(node.to_owned()).or_default() += 1;
        self.set_pod(node, &json!({ "ready": self.works }));
    }

    fn set_pod(&mut self, node: &str, patch: &Value) {
        let uid = self.pod_of(node);
        let ready = if patch["ready"] == true {
            "True"
        } else {
            "False"
        };
        let state = if patch["crashes"] == true {
            "waiting"
        } else {
            "running"
        };
        let template = patch["template"].as_str().unwrap_or(self.template);
        let pod = json!({
            "metadata": {
                "name": uid, "uid": uid, "resourceVersion": "7",
                "annotations": { "imex-dra/template": template },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "set", "uid": "set", "controller": true,
                }],
            },
            "spec": { "nodeName": node, "containers": [] },
            "status": {
                "phase": "Running", "podIP": format!("ip-{uid}"),
                "conditions": [{ "type": "Ready", "status": ready }],
                "containerStatuses": [{
                    "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { state: {} },
                }],
            },
        });
        let now = self.cluster.now;
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.cluster.members.apply_pod(&pod, now);
        self.objects.insert(node.to_owned(), pod);
    }

    /// The nodes that are marked.
    fn marked(&self) -> Vec<String> {
        let daemons = self
            .cluster
            .objects
            .values()
            .flat_map(|it| &it.spec.daemons);
        let marked = daemons.filter(|it| !it.draining.is_empty());
        marked.map(|it| it.node_name.clone()).collect()
    }

    /// The plugins of all nodes update their slices.
    fn update_slices(&mut self) {
        for object in self.cluster.objects.clone().values() {
            for daemon in &object.spec.daemons {
                let mut attributes = json!({ "clique": { "string": daemon.clique_id } });
                let node = &daemon.node_name;
                if !daemon.draining.is_empty() && !self.prepared.contains(node) {
                    attributes["drained"] = json!({ "string": daemon.draining });
                }
                let slice = mk_slice(node, &attributes);
                self.cluster.members.apply_slice(&slice, self.cluster.now);
            }
        }
    }

    /// Passes one second at a time, so that plugins can respond, or ten if the time is long.
    fn pass(&mut self, time: Duration) {
        let end = self.cluster.now + time;
        while self.cluster.now < end {
            self.run_steps();
            self.update_slices();
            let is_long = self.cluster.now + 2 * MINUTE < end;
            self.cluster.now += if is_long { 10 * SECOND } else { SECOND };
        }
    }

    fn run_steps(&mut self) {
        let now = self.cluster.now;
        while let Some((clique, step)) = self.cluster.members.next(now) {
            match step {
                MemberStep::ReadClaims { node, pod, .. } => {
                    self.reads += 1;
                    let in_use = self.allocated.contains(&*node);
                    let claims = in_use.then(|| "ns/claim".to_owned());
                    let claims = claims.into_iter().collect();
                    let clique = clique.unwrap();
                    self.cluster
                        .members
                        .set_listed_claims(&clique, &pod, claims, now);
                }
                MemberStep::DeletePod {
                    name,
                    uid,
                    resource_version,
                    node,
                    how,
                } => {
                    self.versions.push(resource_version);
                    let node = node.unwrap_or_default();
                    assert_eq!(*uid, *self.pod_of(&node), "{name}");
                    self.deleted.push((node.to_string(), how));
                    let members = &mut self.cluster.members;
                    members.pod_deleted(clique.as_ref(), &uid, now);
                    self.cluster.members.remove_pod(&uid, now);
                    self.start_pod(&node);
                }
                step => self.cluster.make(&clique.unwrap(), step),
            }
        }
    }

    fn take_events(&mut self) -> Vec<RolloutEvent> {
        self.cluster.members.take_rollout_events()
    }

    fn replaced(&self) -> Vec<&str> {
        self.deleted.iter().map(|(node, _)| node.as_str()).collect()
    }

    /// Another controller takes over and lists all objects.
    fn restart(&mut self) {
        self.cluster.restart(18);
        self.say(self.template);
        let now = self.cluster.now;
        for pod in self.objects.values() {
            self.cluster.members.apply_pod(pod, now);
        }
        self.update_slices();
    }
}

// req: MODE-44
#[test]
fn a_daemon_set_whose_pods_lack_its_template_is_reported_and_replaced_with_back_off() {
    let mut rollout = Rollout::new();
    rollout.say("edited");
    rollout.pass(3 * MINUTE);
    let early = rollout.deleted.len();
    assert!((2..=5).contains(&early), "{early}");
    let first = rollout.deleted[0].0.clone();
    let is_mismatch = |it: &RolloutEvent| matches!(it, RolloutEvent::TemplateMismatch { node, .. } if node.as_deref() == Some(&first));
    assert_eq!(
        rollout
            .take_events()
            .iter()
            .filter(|it| is_mismatch(it))
            .count(),
        1
    );
    rollout.pass(60 * MINUTE);
    let late = rollout.deleted.len() - early;
    assert!(late <= 6, "{late}");
    let stopped = |rollout: &Rollout| rollout.cluster.members.rollout_counts().stopped;
    assert_eq!(stopped(&rollout), 1);
    // Only one node's daemon is tried.
    let nodes: BTreeSet<_> = rollout.replaced().into_iter().collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");

    // Reverted: no daemon is outdated or waits.
    rollout.update("old");
    let before = rollout.deleted.len();
    rollout.pass(60 * MINUTE);
    assert_eq!((rollout.deleted.len(), stopped(&rollout)), (before, 0));
    rollout.update("new");
    rollout.pass(MINUTE);
    assert_eq!(rollout.deleted.len(), before + NODES.len());
}

// req: MODE-44
#[test]
fn pods_without_a_clique_or_a_node_are_replaced_with_back_off_too() {
    for is_scheduled in [true, false] {
        let node = if is_scheduled { "alone" } else { "" };
        let mut rollout = Rollout {
            cluster: Cluster::new(18),
            ..Rollout::new()
        };
        rollout.update("old");
        rollout.start_pod(node);
        rollout.pass(MINUTE);
        assert_eq!(rollout.deleted, []);
        rollout.say("edited");
        rollout.pass(60 * MINUTE);
        let replaced = rollout.deleted.len();
        assert!((2..=10).contains(&replaced), "{replaced}");
        rollout.update("new");
        rollout.pass(MINUTE);
        assert_eq!(rollout.deleted.len(), replaced + 1);
    }
}

// req: MODE-25
#[test]
fn daemons_without_claims_are_replaced_one_at_a_time_without_further_writes() {
    let mut rollout = Rollout::new();
    rollout.pass(60 * MINUTE);
    assert_eq!((rollout.deleted.len(), rollout.reads), (0, 0));
    rollout.update("new");
    assert_eq!(rollout.cluster.members.rollout_counts().outdated, 3);
    rollout.pass(MINUTE);
    assert_eq!(rollout.replaced(), NODES);
    assert!(
        rollout
            .deleted
            .iter()
            .all(|(_, how)| *how == Replacement::Drained)
    );
    // Before the mark and after it.
    assert_eq!((rollout.reads, rollout.marked().len()), (6, 0));
    assert_eq!(
        rollout.cluster.members.rollout_counts(),
        RolloutCounts::default()
    );
    let writes = rollout.cluster.writes;
    rollout.pass(60 * MINUTE);
    assert_eq!((rollout.cluster.writes, rollout.deleted.len()), (writes, 3));
    assert_eq!(rollout.take_events(), []);
}

// req: MODE-26
#[test]
fn a_daemon_whose_node_has_a_prepared_claim_stays_until_it_is_unprepared() {
    let mut rollout = Rollout::new();
    for node in NODES {
        rollout.prepared.insert(node.to_owned());
    }
    rollout.update("new");
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.replaced(), [""; 0]);
    let waits = rollout.take_events();
    assert_eq!(waits.len(), 3, "each once: {waits:?}");
    assert!(matches!(&waits[0], RolloutEvent::Waits { claims, .. } if claims.is_empty()));
    rollout.prepared.clear();
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.deleted.len(), 3);
}

// req: MODE-26
#[test]
fn a_node_in_use_is_not_marked_and_is_updated_as_soon_as_it_is_unused() {
    let mut rollout = Rollout::new();
    let now = rollout.cluster.now;
    rollout.cluster.members.set_in_use("n1", true, now);
    rollout.update("new");
    let writes_to_n1 = |rollout: &Rollout| rollout.marked().contains(&"n1".to_owned());
    for _ in 0..600 {
        rollout.pass(SECOND);
        assert!(!writes_to_n1(&rollout));
    }
    assert_eq!(rollout.replaced(), ["n2", "n3"]);
    let now = rollout.cluster.now;
    rollout.cluster.members.set_in_use("n1", false, now);
    rollout.pass(5 * SECOND);
    assert_eq!(rollout.replaced(), ["n2", "n3", "n1"]);
    assert_eq!(rollout.take_events(), []);
}

// req: MODE-26
#[test]
fn a_new_controller_marks_no_node_with_claims_and_reports_the_claims() {
    let mut rollout = Rollout::new();
    rollout.allocated.insert("n1".to_owned());
    rollout.prepared.insert("n1".to_owned());
    rollout.update("new");
    rollout.pass(MINUTE);
    for _ in 0..5 {
        // It knows claims only from a list.
        rollout.restart();
        for _ in 0..120 {
            rollout.pass(SECOND);
            assert_eq!(rollout.marked(), [""; 0]);
        }
        let claims = vec!["ns/claim".to_owned()];
        let node = "n1".into();
        assert_eq!(
            rollout.take_events(),
            [RolloutEvent::Waits { node, claims }]
        );
    }
    assert_eq!(rollout.replaced(), ["n2", "n3"]);
    let now = rollout.cluster.now;
    rollout.cluster.members.set_in_use("n1", true, now);
    rollout.allocated.clear();
    rollout.prepared.clear();
    rollout.cluster.members.set_in_use("n1", false, now);
    rollout.pass(5 * SECOND);
    assert_eq!(rollout.replaced(), ["n2", "n3", "n1"]);
}

// req: MODE-26
#[test]
fn a_claim_without_a_domain_is_checked_with_back_off() {
    let mut rollout = Rollout::new();
    for node in NODES {
        rollout.allocated.insert(node.to_owned());
    }
    rollout.update("new");
    rollout.pass(4 * 60 * MINUTE);
    assert_eq!((rollout.marked().len(), rollout.deleted.len()), (0, 0));
    assert!((3..45).contains(&rollout.reads), "{}", rollout.reads);
    rollout.allocated.clear();
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.deleted.len(), 3);
}

// req: MODE-26
#[test]
fn a_node_is_unmarked_if_a_claim_was_allocated_meanwhile() {
    let mut rollout = Rollout::new();
    rollout.allocated.insert("n1".to_owned());
    rollout.update("new");
    rollout.pass(MINUTE);
    assert_eq!(rollout.replaced(), ["n2", "n3"]);
    assert_eq!(rollout.marked(), [""; 0]);
    let claims = vec!["ns/claim".to_owned()];
    let node = "n1".into();
    assert_eq!(
        rollout.take_events(),
        [RolloutEvent::Waits { node, claims }]
    );
    let reads = rollout.reads;
    rollout.pass(24 * 60 * MINUTE);
    // The pause doubles each time, up to half an hour.
    assert!(
        (48..60).contains(&(rollout.reads - reads)),
        "{}",
        rollout.reads - reads
    );
    rollout.allocated.clear();
    rollout.pass(31 * MINUTE);
    assert_eq!(rollout.replaced(), ["n2", "n3", "n1"]);
}

// req: MODE-26
#[test]
fn a_slices_acknowledgement_of_a_former_mark_does_not_count_for_a_new_one() {
    let mut rollout = Rollout::new();
    rollout.update("new");
    // The slice of n1 already has the acknowledgement, and it is not corrected.
    let stale = json!({ "clique": { "string": A }, "drained": { "string": "n1-1" } });
    for _ in 0..100 {
        let now = rollout.cluster.now;
        rollout
            .cluster
            .members
            .apply_slice(&mk_slice("n1", &stale), now);
        rollout.run_steps();
        assert!(!rollout.marked().contains(&"n1".to_owned()));
        rollout.cluster.now += SECOND;
    }
    rollout.pass(MINUTE);
    assert_eq!(rollout.deleted.len(), 3);
}

// req: MODE-27
#[test]
fn an_update_that_cannot_start_stops_at_the_first_daemon_and_its_correction_continues() {
    let mut rollout = Rollout::new();
    for node in ["m1", "m2"] {
        rollout.add(node, B);
    }
    rollout.pass(MINUTE);
    rollout.works = false;
    rollout.update("broken");
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.deleted.len(), 1, "{:?}", rollout.deleted);
    let (node, clique) = ("n1".into(), Clique::from(A));
    assert_eq!(
        rollout.take_events(),
        [RolloutEvent::Stopped { node, clique }]
    );
    assert_eq!(rollout.cluster.members.rollout_counts().stopped, 1);
    // A correction that does not work costs no further daemon either.
    rollout.update("broken, too");
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.replaced(), ["n1", "n1"]);
    rollout.works = true;
    rollout.update("fixed");
    rollout.pass(5 * MINUTE);
    let mut replaced = rollout.replaced();
    replaced.sort_unstable();
    assert_eq!(replaced, ["m1", "m2", "n1", "n1", "n1", "n2", "n3"]);
    assert_eq!(
        rollout.cluster.members.rollout_counts(),
        RolloutCounts::default()
    );
}

// req: MODE-27
#[test]
fn a_daemon_that_does_not_run_is_replaced_without_its_nodes_acknowledgement() {
    let mut rollout = Rollout::new();
    for node in NODES {
        rollout.prepared.insert(node.to_owned());
        rollout.set_pod(node, &json!({ "crashes": true, "template": "old" }));
    }
    rollout.update("new");
    rollout.pass(MINUTE);
    // The deletion must not hit a pod that runs again, which the watch has not delivered yet.
    assert!(
        rollout.versions.iter().all(|it| it.as_deref() == Some("7")),
        "{:?}",
        rollout.versions
    );
    let how = rollout.deleted.iter().map(|(_, how)| how);
    assert!(how.clone().all(|how| *how == Replacement::NotRunning));
    assert_eq!((how.count(), rollout.reads), (3, 0));
}

// req: MODE-25
#[test]
fn a_reverted_update_unmarks_the_node_and_replaces_nothing() {
    let mut rollout = Rollout::new();
    for node in NODES {
        rollout.prepared.insert(node.to_owned());
    }
    rollout.update("new");
    rollout.pass(5 * SECOND);
    assert_eq!(rollout.marked(), ["n1"]);
    rollout.update("old");
    rollout.prepared.clear();
    rollout.run_steps();
    rollout.pass(60 * MINUTE);
    assert_eq!((rollout.marked().len(), rollout.deleted.len()), (0, 0));
}

// req: MODE-28
#[test]
fn with_force_a_daemon_is_replaced_after_the_time_limit_and_its_claims_are_reported() {
    let mut rollout = Rollout::with_force_after_an_hour_and_claims();
    rollout.update("new");
    rollout.pass(59 * MINUTE);
    assert_eq!(rollout.deleted.len(), 0);
    rollout.pass(5 * MINUTE);
    let forced = Replacement::Forced(vec!["ns/claim".to_owned()]);
    assert_eq!(
        rollout.deleted,
        NODES.map(|node| (node.to_owned(), forced.clone()))
    );
}

// req: MODE-28
#[test]
fn the_time_limit_of_force_starts_again_after_a_reverted_update() {
    let mut rollout = Rollout::with_force_after_an_hour_and_claims();
    rollout.update("new");
    rollout.pass(MINUTE);
    rollout.update("old");
    rollout.pass(2 * 60 * MINUTE);
    rollout.update("new");
    rollout.pass(59 * MINUTE);
    assert_eq!(rollout.deleted, []);
    rollout.pass(5 * MINUTE);
    assert_eq!(rollout.replaced(), NODES);
}

// req: MODE-28
#[test]
fn with_force_the_claims_are_listed_after_the_mark_too() {
    let mut rollout = Rollout::new();
    rollout.set_force_after(60 * MINUTE);
    for node in NODES {
        rollout.prepared.insert(node.to_owned());
        rollout.allocated.insert(node.to_owned());
    }
    rollout.update("new");
    while rollout.marked().is_empty() {
        rollout.pass(SECOND);
        assert_eq!(rollout.deleted, []);
    }
    rollout.prepared.clear();
    rollout.allocated.clear();
    rollout.pass(5 * MINUTE);
    let drained = NODES.map(|node| (node.to_owned(), Replacement::Drained));
    assert_eq!(rollout.deleted, drained);
}

// req: MODE-29
#[test]
fn daemons_without_a_clique_are_replaced_after_the_first_one_in_a_clique() {
    let mut rollout = Rollout::new();
    rollout.start_pod("alone");
    rollout.works = false;
    rollout.update("broken");
    rollout.pass(10 * MINUTE);
    assert_eq!(rollout.replaced(), ["n1"]);
    rollout.works = true;
    rollout.update("new");
    rollout.pass(5 * MINUTE);
    let alone = ("alone".to_owned(), Replacement::NoMember);
    assert!(rollout.deleted.contains(&alone), "{:?}", rollout.deleted);
    assert_eq!(rollout.deleted.len(), 5);
}

// req: MODE-25
#[test]
fn pods_of_a_daemon_set_without_the_template_annotation_are_not_replaced() {
    let mut rollout = Rollout::new();
    let now = rollout.cluster.now;
    rollout.cluster.members.apply_template("set", None, now);
    rollout.pass(60 * MINUTE);
    rollout.cluster.members.remove_template("set");
    rollout.pass(60 * MINUTE);
    assert_eq!((rollout.deleted.len(), rollout.marked().len()), (0, 0));
}

// req: MODE-25
#[test]
fn pods_of_a_daemon_set_missing_in_a_new_list_are_not_replaced() {
    let mut rollout = Rollout::new();
    rollout.update("new");
    rollout.cluster.members.begin_templates();
    rollout.cluster.members.finish_templates();
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.deleted, []);

    rollout.cluster.members.begin_templates();
    rollout.update("new");
    rollout.cluster.members.finish_templates();
    rollout.pass(60 * MINUTE);
    assert_eq!(rollout.deleted.len(), NODES.len());
}

// req: MODE-25, MODE-26
#[test]
fn a_controller_that_restarts_at_any_time_continues_and_replaces_each_daemon_once() {
    for died_after in 0..20 {
        let mut rollout = Rollout::new();
        rollout.prepared.insert("n2".to_owned());
        rollout.update("new");
        for _ in 0..died_after {
            rollout.run_steps();
            rollout.update_slices();
            rollout.cluster.now += 200 * MS;
        }
        rollout.restart();
        rollout.pass(5 * MINUTE);
        assert_eq!(rollout.replaced(), ["n1", "n3"], "after {died_after}");
        rollout.prepared.clear();
        rollout.pass(60 * MINUTE);
        assert_eq!(rollout.replaced(), ["n1", "n3", "n2"], "after {died_after}");
        assert_eq!(rollout.marked(), [""; 0]);
    }
}

// req: MODE-27
#[test]
fn an_unscheduled_new_daemon_is_replaced_by_the_correction() {
    let mut rollout = Rollout::new();
    let now = rollout.cluster.now;
    let pending = |template: &str| {
        let pod = json!({
            "metadata": {
                "name": "pending", "uid": "pending", "annotations": { "imex-dra/template": template },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "set", "uid": "set", "controller": true,
                }],
            },
            "spec": { "containers": [] }, "status": { "phase": "Pending" },
        });
        serde_json::from_value::<Pod>(pod).unwrap()
    };
    rollout.cluster.members.apply_pod(&pending("old"), now);
    rollout.cluster.now += MINUTE;
    assert_eq!(rollout.cluster.members.next(rollout.cluster.now), None);
    rollout.update("new");
    rollout.cluster.now += SECOND;
    let now = rollout.cluster.now;
    let mut deleted = Vec::new();
    while let Some((clique, step)) = rollout.cluster.members.next(now) {
        if let MemberStep::DeletePod { uid, how, .. } = &step {
            deleted.push((uid.to_string(), how.clone()));
            let members = &mut rollout.cluster.members;
            members.pod_deleted(clique.as_ref(), uid, now);
        }
    }
    assert_eq!(deleted, [("pending".to_owned(), Replacement::NotRunning)]);
    assert_eq!(rollout.cluster.members.next(now + MINUTE), None, "once");
}
