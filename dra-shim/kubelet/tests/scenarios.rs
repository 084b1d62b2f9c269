//! Kubernetes' own node-level scenarios for DRA (`test/e2e_node/dra_test.go`) about kubelet and
//! driver: pods and claims.

use dra_kubelet::Method;
use dra_kubelet::testing::{CallError, Event, Options, Phase, RegistrationStep, RepeatedPrepare};

use crate::support::node::{
    Arrivals, Next, Node, Plan, claim_ref, claims, pod, pod_of, reaches, short_calls,
};
use crate::support::{DRIVER, Script, soon, until};

const OTHER: &str = "other.example.com";

// req: KUBELET-8
#[tokio::test]
async fn a_plugin_is_registered_again_after_kubelets_restart_and_after_its_own() {
    let node = Node::new();
    let plugin = node.registered(Script::instant(), claims(&["a"])).await;
    node.kubelet.restart().await.unwrap();
    soon("kubelet's restart", node.kubelet.wait_registered(DRIVER)).await;

    plugin.shutdown().await;
    node.until("unregistration", |events| {
        matches!(events.last(), Some(Event::Unregistered { .. }))
    })
    .await;
    let called = node.kubelet.prepare(DRIVER, &[claim_ref("a")]).await;
    assert!(matches!(called, Err(CallError::NotRegistered { .. })));
    let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
}

// req: KUBELET-7
#[tokio::test]
async fn a_plugin_registers_although_the_first_handshakes_fail() {
    for step in [RegistrationStep::GetInfo, RegistrationStep::Notify] {
        let node = Node::new();
        node.kubelet.lose_answers(step, 2);
        let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
        let failed = |event: &&Event| matches!(event, Event::RegistrationFailed { .. });
        assert_eq!(node.kubelet.events().iter().filter(failed).count(), 2);
        let answers = node.kubelet.prepare(DRIVER, &[claim_ref("a")]).await;
        assert!(answers.unwrap()["uid-a"].is_ok(), "{step:?}");
    }
}

// req: KUBELET-8
#[tokio::test]
async fn a_pod_created_while_kubelet_is_down_runs_after_its_restart() {
    let node = Node::new();
    let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
    node.kubelet.stop().await;
    let mut pod = node.kubelet.run_pod(pod("p", &["a"]));
    node.kubelet.restart().await.unwrap();
    reaches(&mut pod, Phase::Running).await;
}

#[tokio::test]
async fn a_pod_whose_prepare_blocks_past_the_deadline_stays_pending_and_runs_once_it_ends() {
    let node = Node::with(short_calls());
    let plan = Plan::default();
    plan.prepare.next_are(&[Next::Block]);
    let _plugin = node.registered(plan.driver(), claims(&["a"])).await;
    let mut pod = node.kubelet.run_pod(pod("p", &["a"]));
    // The claim is answered before kubelet's timeout.
    node.until("the pod's event", |events| {
        events.iter().any(|event| {
            matches!(event, Event::PrepareFailed { message, .. }
                if message.contains("ResourceClaim a: ") && message.contains("longer than kubelet waits"))
        })
    })
    .await;
    assert_eq!(*pod.borrow(), Phase::Pending);
    // The deletion cancels the hanging step of the claim.
    node.kubelet.delete_pod("p");
    reaches(&mut pod, Phase::Gone).await;
    let mut next = node.kubelet.run_pod(crate::support::node::pod("q", &["a"]));
    reaches(&mut next, Phase::Running).await;
}

#[tokio::test]
async fn a_failing_prepare_is_repeated_until_the_pod_runs_also_across_kubelets_restart() {
    let node = Node::new();
    let plan = Plan::default();
    plan.prepare.next_are(&[Next::Fail; 3]);
    let _plugin = node.registered(plan.driver(), claims(&["a"])).await;
    let mut pod = node.kubelet.run_pod(pod("p", &["a"]));
    node.until_failed("p").await;
    node.kubelet.restart().await.unwrap();
    reaches(&mut pod, Phase::Running).await;
    assert_eq!(plan.prepare.begun(), 4);
    assert_eq!(node.kubelet.devices(&claim_ref("a")).unwrap().len(), 1);
}

#[tokio::test]
async fn a_failing_unprepare_is_repeated_until_the_pod_ends_also_across_kubelets_restart() {
    let node = Node::new();
    let plan = Plan::default();
    plan.unprepare.next_are(&[Next::Fail; 3]);
    let _plugin = node.registered(plan.driver(), claims(&["a"])).await;
    let mut pod = node.kubelet.run_pod(pod("p", &["a"]));
    reaches(&mut pod, Phase::Running).await;
    node.kubelet.delete_pod("p");
    node.until_failed("p").await;
    node.kubelet.restart().await.unwrap();
    reaches(&mut pod, Phase::Gone).await;
    assert_eq!(plan.unprepare.begun(), 4);
    assert_eq!(node.kubelet.devices(&claim_ref("a")), None);
}

#[tokio::test]
async fn a_force_deleted_pod_is_unprepared_with_retries_also_across_kubelets_restart() {
    let node = Node::new();
    let plan = Plan::default();
    plan.unprepare.next_are(&[Next::Fail; 2]);
    let _plugin = node.registered(plan.driver(), claims(&["a"])).await;
    let mut pod = node.kubelet.run_pod(pod("p", &["a"]));
    reaches(&mut pod, Phase::Running).await;
    node.kubelet.force_delete_pod("p");
    node.until_failed("p").await;
    node.kubelet.restart().await.unwrap();
    reaches(&mut pod, Phase::Gone).await;
    assert_eq!(plan.prepare.begun(), 1);
}

#[tokio::test]
async fn a_pod_deleted_while_kubelet_is_down_and_prepare_blocks_is_only_unprepared() {
    let node = Node::new();
    let plan = Plan::default();
    plan.prepare.next_are(&[Next::Block]);
    let _plugin = node.registered(plan.driver(), claims(&["a"])).await;
    let mut pod = node.kubelet.run_pod(pod("p", &["a"]));
    until("the blocking step", || plan.prepare.begun() == 1).await;
    node.kubelet.stop().await;
    node.kubelet.delete_pod("p");
    node.kubelet.restart().await.unwrap();
    reaches(&mut pod, Phase::Gone).await;
    assert_eq!((plan.prepare.begun(), plan.unprepare.begun()), (1, 1));
    assert_eq!(node.calls(Method::Prepare), 1);
}

#[tokio::test]
async fn a_shared_claim_is_prepared_once_and_again_by_a_restarted_kubelet() {
    for (repeated_prepare, devices) in [(RepeatedPrepare::Append, 2), (RepeatedPrepare::Replace, 1)]
    {
        let node = Node::with_options(Options {
            repeated_prepare,
            ..Options::default()
        });
        let plan = Plan::default();
        let _plugin = node.registered(plan.driver(), claims(&["a"])).await;
        let mut pods = Vec::new();
        for uid in ["one", "two"] {
            pods.push(node.kubelet.run_pod(pod(uid, &["a"])));
            reaches(pods.last_mut().unwrap(), Phase::Running).await;
        }
        assert_eq!(plan.prepare.begun(), 1);

        node.kubelet.restart().await.unwrap();
        soon("the registration", node.kubelet.wait_registered(DRIVER)).await;
        pods.push(node.kubelet.run_pod(pod("three", &["a"])));
        reaches(pods.last_mut().unwrap(), Phase::Running).await;
        assert_eq!(plan.prepare.begun(), 2);
        // Each answer has the same device, so the runtime gets only one CDI id.
        let recorded = node.kubelet.devices(&claim_ref("a")).unwrap();
        assert_eq!(recorded.len(), devices, "{repeated_prepare:?}");
        assert!(recorded.iter().all(|it| it.cdi_ids == recorded[0].cdi_ids));

        for (uid, pod) in ["one", "two", "three"].into_iter().zip(&mut pods) {
            assert_eq!(plan.unprepare.begun(), 0);
            node.kubelet.delete_pod(uid);
            reaches(pod, Phase::Gone).await;
        }
        assert_eq!(plan.unprepare.begun(), 1);
    }
}

#[cfg(test)]
fn both_drivers(names: &[&str]) -> crate::support::Claims {
    let claims = crate::support::Claims::default();
    for name in names {
        let result = |driver: &str, device: &str| {
            format!(r#"{{"request":"r","driver":"{driver}","pool":"n1","device":"{device}"}}"#)
        };
        let results = [result(DRIVER, "mine"), result(OTHER, "theirs")].join(",");
        claims.put_results(name, &format!("[{results}]"));
    }
    claims
}

#[tokio::test]
async fn a_claim_of_two_drivers_is_prepared_by_both_although_one_fails_first() {
    let node = Node::new();
    let (mine, theirs) = (Plan::default(), Plan::default());
    theirs.prepare.next_are(&[Next::Fail]);
    mine.unprepare.next_are(&[Next::Fail]);
    let claims = both_drivers(&["a"]);
    let _mine = node.registered(mine.driver(), claims.clone()).await;
    // No driver is called before all drivers are registered.
    let mut pod = node.kubelet.run_pod(pod_of("p", &["a"], &[DRIVER, OTHER]));
    node.until_failed("p").await;
    assert_eq!(
        (mine.prepare.begun(), node.kubelet.devices(&claim_ref("a"))),
        (0, None)
    );

    let _theirs = node.start_with(OTHER, theirs.driver(), claims, |builder| builder);
    reaches(&mut pod, Phase::Running).await;
    assert_eq!(theirs.prepare.begun(), 2);
    let mut devices: Vec<_> = node.kubelet.devices(&claim_ref("a")).unwrap();
    devices.sort_by_key(|device| device.device.clone());
    // The first answer may occur twice, with kubelets that append.
    devices.dedup();
    let names: Vec<_> = devices
        .iter()
        .map(|device| device.device.as_str())
        .collect();
    assert_eq!(names, ["mine", "theirs"]);

    node.kubelet.delete_pod("p");
    reaches(&mut pod, Phase::Gone).await;
    assert_eq!(mine.unprepare.begun(), 2);
    assert!(theirs.unprepare.begun() >= 1);
}

#[tokio::test]
async fn an_attempt_that_blocks_is_joined_by_the_call_of_the_next_kubelet() {
    let node = Node::new();
    let (mine, theirs) = (Plan::default(), Plan::default());
    theirs.prepare.next_are(&[Next::Block]);
    mine.unprepare.next_are(&[Next::Block]);
    let claims = both_drivers(&["a"]);
    let (at_mine, at_theirs) = (Arrivals::default(), Arrivals::default());
    let _plugins =
        [(DRIVER, &mine, &at_mine), (OTHER, &theirs, &at_theirs)].map(|(name, plan, arrivals)| {
            node.start_with(name, plan.driver(), claims.clone(), |builder| {
                builder.observer(arrivals.clone())
            })
        });
    soon("one driver", node.kubelet.wait_registered(DRIVER)).await;
    soon("the other", node.kubelet.wait_registered(OTHER)).await;

    let mut pod = node.kubelet.run_pod(pod_of("p", &["a"], &[DRIVER, OTHER]));
    for (method, steps, arrivals, phase) in [
        (Method::Prepare, &theirs.prepare, &at_theirs, Phase::Running),
        (Method::Unprepare, &mine.unprepare, &at_mine, Phase::Gone),
    ] {
        until("the blocking step", || steps.begun() == 1).await;
        node.kubelet.restart().await.unwrap();
        until("the second call", || arrivals.of(method) == 2).await;
        steps.release();
        reaches(&mut pod, phase).await;
        assert_eq!(steps.begun(), 1, "{method}");
        node.kubelet.delete_pod("p");
    }
}

// req: KUBELET-36, KUBELET-49
#[tokio::test]
async fn one_connection_carries_all_calls_and_the_health_stream() {
    let node = Node::new();
    let _plugin = node
        .registered(Script::instant(), claims(&["a", "b"]))
        .await;
    node.until("a report", |events| {
        events
            .iter()
            .any(|event| matches!(event, Event::HealthReported { .. }))
    })
    .await;
    for name in ["a", "b"] {
        let mut running = node.kubelet.run_pod(pod(name, &[name]));
        reaches(&mut running, Phase::Running).await;
    }
    let connections =
        |event: &&Event| matches!(event, Event::Connected { .. } | Event::Disconnected { .. });
    assert_eq!(node.kubelet.events().iter().filter(connections).count(), 1);
}

// req: KUBELET-22
#[tokio::test]
async fn zero_one_and_two_share_ids_of_a_device_are_passed_on() {
    let node = Node::new();
    let all = crate::support::Claims::default();
    let result = |device: &str, share: &str| {
        let share = if share.is_empty() {
            String::new()
        } else {
            format!(r#","shareID":"{share}""#)
        };
        format!(r#"{{"request":"r","driver":"{DRIVER}","pool":"n1","device":"{device}"{share}}}"#)
    };
    let cases: [(&str, &[&str]); 3] = [("none", &[""]), ("one", &["s1"]), ("two", &["s1", "s2"])];
    for (name, shares) in cases {
        let results: Vec<_> = shares.iter().map(|share| result("d0", share)).collect();
        all.put_results(name, &format!("[{}]", results.join(",")));
    }
    let _plugin = node.registered(Script::instant(), all).await;
    for (name, shares) in cases {
        let mut running = node.kubelet.run_pod(pod(name, &[name]));
        reaches(&mut running, Phase::Running).await;
        let devices = node.kubelet.devices(&claim_ref(name)).unwrap();
        let carried: Vec<_> = devices
            .iter()
            .map(|it| it.share_id.clone().unwrap_or_default())
            .collect();
        assert_eq!(carried, shares, "{name}");
    }
}
