//! Faults of requests, and kills between them.

use super::*;

/// Faults of any request, and further ones of a watch.
const ANY: [Fault; 8] = [
    Fault::Conflict,
    Fault::Busy,
    Fault::InternalError,
    Fault::Unavailable,
    Fault::Forbidden("RBAC: not allowed"),
    Fault::NoAnswer,
    Fault::RequestLost,
    Fault::AnswerLost,
];
const WATCH: [Fault; 6] = [
    Fault::Expired,
    Fault::StreamExpires,
    Fault::StreamBreaks,
    Fault::StreamFails,
    Fault::StreamMalformed,
    Fault::StreamGarbled,
];

#[tokio::test(start_paused = true)]
async fn labels_and_pools_converge_after_repeated_faults_of_any_call() {
    let calls = [
        Call::ListNodeLabels,
        Call::ListSlices,
        Call::WatchSlices,
        Call::ListDomains,
        Call::ListAllocations,
        Call::LabelNode,
        Call::CreateSlice,
        Call::ReplaceSlice,
        Call::DeleteSlice,
    ];
    for call in calls {
        let of_watch = WATCH.iter().filter(|_| call.is_watch());
        for fault in ANY.iter().chain(of_watch) {
            let api = FakeApi::new();
            let rule = Rule::once(call, *fault).times(3);
            api.break_with(rule.clone());
            create_node(&api, "n1", &json!({}), &device_of(A));
            let running = Running::start(&api, GROUPS);
            api.until("complete", |api| is_complete(api, A, 1)).await;
            // Each edit is noticed, whatever the watch has missed.
            let edit = |slice: &mut Value| slice["spec"]["devices"] = json!([]);
            api.edit(Resource::Slices, "", &slice_name(A, 1), edit);
            api.until("repaired", |api| is_complete(api, A, 2)).await;
            set_device(&api, "n1", &device_of(B));
            let moved = |api: &FakeApi| {
                is_labelled(api, "n1", B) && is_complete(api, B, 1) && pool_slices(api).len() == 2
            };
            // Without polling each tenth of a second, because there are a hundred rounds.
            api.after(TEN_MINUTES).await;
            api.until("moved", moved).await;
            assert!(api.faults_fired() >= 1, "it did not go wrong: {rule:?}");
            running.kill().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_killed_after_any_write_is_succeeded_with_the_same_result() {
    let run = async |kill_after: Option<usize>| {
        let api = FakeApi::new();
        for (node, clique) in [("n1", A), ("n2", B)] {
            create_node(&api, node, &json!({}), &device_of(clique));
        }
        let first = Running::start(&api, GROUPS);
        let settled = |api: &FakeApi| {
            is_labelled(api, "n1", A) && is_labelled(api, "n2", B) && pool_slices(api).len() == 4
        };
        if let Some(writes) = kill_after {
            api.until("killed", |api| api.writes() >= writes).await;
            first.kill().await;
            let second = Running::start(&api, GROUPS);
            api.until("settled", settled).await;
            second.kill().await;
        } else {
            api.until("settled", settled).await;
            first.kill().await;
        }
        (api.writes(), pool_slices(&api))
    };
    let (writes, slices) = run(None).await;
    assert_eq!(writes, 2 + 4);
    for kill_after in 0..=writes {
        assert_eq!(
            run(Some(kill_after)).await,
            (writes, slices.clone()),
            "{kill_after}"
        );
    }
}
