//! Replacing outdated daemons.

use super::*;

/// Creates ready daemons of one `DaemonSet` on these nodes, all from the template `old`.
fn create_daemons(api: &FakeApi, nodes: &[&str]) {
    let set = api.create(json!({
        "kind": "DaemonSet",
        "metadata": {
            "name": "imex-daemon", "namespace": NAMESPACE,
            "labels": { "imex-dra/resident": "true" }, "annotations": { "imex-dra/template": "old" },
        },
        "spec": { "updateStrategy": { "type": "OnDelete" } },
    }));
    for node in nodes {
        create_node(api, node);
        start_daemon(api, node, &uid(&set), "old");
    }
}

/// Starts a daemon as the `DaemonSet` controller and kubelet do.
fn start_daemon(api: &FakeApi, node: &str, set: &str, template: &str) -> String {
    let pod = api.create(json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("daemon-{node}"), "namespace": NAMESPACE,
            "labels": { "imex-dra-component": "imex-daemon" },
            "annotations": { "imex-dra/template": template },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "imex-daemon", "uid": set, "controller": true,
            }],
        },
        "spec": { "nodeName": node, "containers": [] },
        "status": {
            "phase": "Running", "podIP": format!("10.0.0.{}", &node[1..]),
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} },
            }],
        },
    }));
    uid(&pod)
}

fn update(api: &FakeApi) {
    api.edit(Resource::DaemonSets, NAMESPACE, "imex-daemon", |set| {
        set["metadata"]["annotations"]["imex-dra/template"] = json!("new");
    });
}

/// The UID with which the node is marked.
fn mark(api: &FakeApi, node: &str) -> Option<String> {
    let object = api.get(Resource::Cliques, NAMESPACE, A)?;
    let daemons = object["daemons"].as_array().cloned().unwrap_or_default();
    let daemon = daemons.into_iter().find(|it| it["nodeName"] == node)?;
    daemon["draining"].as_str().map(str::to_owned)
}

/// Reports the node as drained, as its plugin does while no claim is prepared.
fn tell_drained(api: &FakeApi, node: &str) {
    let mark = mark(api, node);
    api.edit(Resource::Slices, "", &format!("00000-{node}"), |slice| {
        let attributes = &mut slice["spec"]["devices"][0]["attributes"];
        match mark {
            Some(mark) => attributes["drained"] = json!({ "string": mark }),
            None => drop(attributes.as_object_mut().unwrap().remove("drained")),
        }
    });
}

fn template_of(api: &FakeApi, node: &str) -> Option<String> {
    let pod = api.get(Resource::Pods, NAMESPACE, &format!("daemon-{node}"))?;
    let template = &pod["metadata"]["annotations"]["imex-dra/template"];
    template.as_str().map(str::to_owned)
}

/// Follows the update of the node's daemon until the new one runs.
async fn follow(api: &FakeApi, node: &str) {
    api.until("marked", |api| mark(api, node).is_some()).await;
    tell_drained(api, node);
    api.until("deleted", |api| template_of(api, node).is_none())
        .await;
    let set = api
        .get(Resource::DaemonSets, NAMESPACE, "imex-daemon")
        .unwrap();
    start_daemon(api, node, &uid(&set), "new");
    api.until("reported", |api| mark(api, node).is_none()).await;
    tell_drained(api, node);
}

fn create_claim(api: &FakeApi, node: &str) {
    api.create(json!({
        "kind": "ResourceClaim", "metadata": { "name": "by-hand", "namespace": "train" },
        "status": { "allocation": { "devices": { "results": [{
            "request": "channel", "driver": "compute-domain.nvidia.com", "pool": node, "device": "channel-0",
        }] } } },
    }));
}

fn assert_names_the_claim(api: &FakeApi) {
    let note = api.event_note("ImexUpdateWaits").unwrap();
    assert!(
        note.contains("node n1") && note.contains("train/by-hand"),
        "{note}"
    );
}

// req: MODE-25
#[tokio::test(start_paused = true)]
async fn a_replaced_daemon_costs_a_mark_a_list_a_deletion_and_its_changes() {
    let api = FakeApi::new();
    create_daemons(&api, &["n1", "n2"]);
    let running = Running::start(&api, 18).await;
    api.until("two members", |api| members(api).len() == 2)
        .await;
    api.after(SIX_MINUTES).await;
    api.forget_requests();
    api.after(10 * SIX_MINUTES).await;
    assert_eq!(api.calls(), []);

    update(&api);
    follow(&api, "n1").await;
    api.until("n2 is the next", |api| mark(api, "n2").is_some())
        .await;
    let of_n1 = [
        Call::ListAllocations,
        Call::ReplaceClique,
        Call::ListAllocations,
        Call::DeleteDaemonPod,
        Call::ReplaceClique,
        Call::PostEvent,
    ];
    let mut calls = api.calls();
    // The event may arrive later than the others.
    calls.sort_unstable_by_key(|call| *call == Call::PostEvent);
    assert_eq!(calls[..4], of_n1[..4], "{calls:?}");
    let count = |call| calls.iter().filter(|it| **it == call).count();
    // The deleted and the new pod may share one write; the last one is n2's mark.
    assert!((3..=4).contains(&count(Call::ReplaceClique)), "{calls:?}");
    assert_eq!(
        (count(Call::ListAllocations), count(Call::DeleteDaemonPod)),
        (2, 1)
    );
    assert_eq!(running.metric("imex_dra_imex_daemons_draining"), 1);
    follow(&api, "n2").await;
    assert_eq!(
        running.metric("imex_dra_imex_daemons_replaced_total{how=\"drained\"}"),
        2
    );
    api.until("counted", |_| {
        running.metric("imex_dra_imex_daemons_outdated") == 0
    })
    .await;
    assert!(
        api.event_note("ImexDaemonReplaced")
            .unwrap()
            .contains("no claim uses the daemon")
    );
    api.after(SIX_MINUTES).await;
    api.forget_requests();
    api.after(10 * SIX_MINUTES).await;
    assert_eq!(api.calls(), []);
    running.kill().await;
}

// req: MODE-26
#[tokio::test(start_paused = true)]
async fn an_unreported_claim_is_found_before_the_pod_is_deleted() {
    let api = FakeApi::new();
    create_daemons(&api, &["n1"]);
    let running = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    update(&api);
    api.until("marked", |api| mark(api, "n1").is_some()).await;
    create_claim(&api, "n1");
    tell_drained(&api, "n1");
    api.until("withdrawn", |api| mark(api, "n1").is_none())
        .await;
    assert_eq!(template_of(&api, "n1").as_deref(), Some("old"));
    api.until("reported", |api| {
        api.event_note("ImexUpdateWaits").is_some()
    })
    .await;
    assert_names_the_claim(&api);
    tell_drained(&api, "n1");
    api.delete(Resource::Claims, "train", "by-hand");
    follow(&api, "n1").await;
    running.kill().await;
}

// req: MODE-26
#[tokio::test(start_paused = true)]
async fn a_node_is_not_marked_while_its_domain_has_claims_on_it() {
    let api = FakeApi::new();
    create_daemons(&api, &["n1"]);
    let nodes = Arc::new(NodesOfDomains::new(true));
    let running = Running::start_with(&api, 18, nodes.clone()).await;
    api.until("a member", |api| members(api).len() == 1).await;
    let domain = "uid-of-domain".into();
    nodes.set_domain(&domain, ["n1".into()].into());
    api.after(Duration::from_secs(1)).await;
    update(&api);
    api.after(10 * SIX_MINUTES).await;
    assert_eq!(
        (mark(&api, "n1"), api.count(Call::ListAllocations)),
        (None, 1)
    );
    nodes.forget_domain(&domain);
    follow(&api, "n1").await;
    running.kill().await;
}

// req: MODE-26
#[tokio::test(start_paused = true)]
async fn a_new_leader_during_an_update_marks_no_node_with_claims_and_reports_them() {
    let api = FakeApi::new();
    create_daemons(&api, &["n1"]);
    create_claim(&api, "n1");
    update(&api);
    for _ in 0..5 {
        // The claims are not known yet.
        let running = Running::start_with(&api, 18, Arc::new(NodesOfDomains::new(true))).await;
        api.until("reported", |api| {
            api.event_note("ImexUpdateWaits").is_some()
        })
        .await;
        assert_names_the_claim(&api);
        api.after(10 * SIX_MINUTES).await;
        assert_eq!(mark(&api, "n1"), None);
        running.kill().await;
    }
    let running = Running::start(&api, 18).await;
    api.delete(Resource::Claims, "train", "by-hand");
    follow(&api, "n1").await;
    running.kill().await;
}

// req: MODE-25
#[tokio::test(start_paused = true)]
async fn failed_requests_and_a_killed_controller_do_not_change_the_outcome() {
    for call in [
        Call::ReplaceClique,
        Call::ListAllocations,
        Call::DeleteDaemonPod,
    ] {
        for fault in [Fault::RequestLost, Fault::AnswerLost, Fault::Unavailable] {
            let api = FakeApi::new();
            create_daemons(&api, &["n1"]);
            let running = Running::start(&api, 18).await;
            api.until("a member", |api| members(api).len() == 1).await;
            api.break_with(Rule::once(call, fault).times(3));
            update(&api);
            api.until("marked", |api| mark(api, "n1").is_some()).await;
            running.kill().await;
            let running = Running::start(&api, 18).await;
            follow(&api, "n1").await;
            running.kill().await;
        }
    }
}

// req: MODE-27
#[tokio::test(start_paused = true)]
async fn a_new_daemon_that_does_not_become_ready_is_reported() {
    let api = FakeApi::new();
    create_daemons(&api, &["n1", "n2"]);
    let running = Running::start(&api, 18).await;
    api.until("members", |api| members(api).len() == 2).await;
    update(&api);
    api.until("marked", |api| mark(api, "n1").is_some()).await;
    tell_drained(&api, "n1");
    let began = Instant::now();
    api.until("reported", |api| {
        api.event_note("ImexUpdateStopped").is_some()
    })
    .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(125), "{took:?}");
    let note = api.event_note("ImexUpdateStopped").unwrap();
    assert!(note.contains("node n1") && note.contains(A), "{note}");
    assert_eq!(running.metric("imex_dra_imex_updates_stopped"), 1);
    assert_eq!(
        (mark(&api, "n2"), template_of(&api, "n2").as_deref()),
        (None, Some("old"))
    );
    running.kill().await;
}

// req: MODE-27
#[tokio::test(start_paused = true)]
async fn a_stopped_daemon_is_deleted_only_while_it_is_stopped() {
    let api = FakeApi::new();
    create_daemons(&api, &["n1"]);
    let running = Running::start(&api, 18).await;
    api.until("a member", |api| members(api).len() == 1).await;
    // Its container has ended, and runs again before the deletion arrives.
    api.break_with(Rule::once(Call::DeleteDaemonPod, Fault::RequestLost));
    let set_state = |state: &'static str| {
        api.edit(Resource::Pods, NAMESPACE, "daemon-n1", |pod| {
            pod["status"]["containerStatuses"][0]["state"] = json!({ state: {} });
        });
    };
    set_state("waiting");
    update(&api);
    api.until("about to be deleted", |api| {
        api.count(Call::DeleteDaemonPod) == 1
    })
    .await;
    set_state("running");
    api.after(Duration::from_secs(20)).await;
    assert_eq!(
        template_of(&api, "n1").as_deref(),
        Some("old"),
        "{:?}",
        api.calls()
    );
    follow(&api, "n1").await;
    running.kill().await;
}
