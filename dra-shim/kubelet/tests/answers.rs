//! Answers that do not match the claim, are invalid for the runtime, or exceed kubelet's limits.

use dra_kubelet::testing::Event;
use dra_kubelet::{Claim, DeviceHealth, Health, Registration};
use tokio::sync::watch;

use crate::support::node::{Node, claim_ref, pod, reaches};
use crate::support::{Claims, DRIVER, Script, devices, soon};

/// A driver whose answer depends on the claim's name.
#[cfg(test)]
fn odd() -> Script {
    Script::preparing(|_, claim: Claim| async move {
        let mut devices = devices(&claim);
        match claim.id.name.as_str() {
            "bad-id" => devices[0].cdi_ids = vec!["not a CDI id".into()],
            "twice" => devices.extend(devices.clone()),
            "large" => {
                devices[0].cdi_ids = vec![format!("example.com/test={}", "x".repeat(5 << 20))];
            }
            _ => {}
        }
        Ok(devices)
    })
}

// req: KUBELET-16
#[tokio::test]
async fn an_invalid_answer_fails_only_its_own_claim() {
    let node = Node::new();
    let names = ["bad-id", "large", "good"];
    let _plugin = node.registered(odd(), Claims::allocated(&names)).await;
    let claims = names.map(claim_ref);
    let answers = node.kubelet.prepare(DRIVER, &claims);
    let answers = soon("the answers", answers).await.unwrap();
    let error = |name: &str| answers[&format!("uid-{name}")].clone().unwrap_err();
    assert!(error("bad-id").contains("`not a CDI id`"), "{answers:?}");
    assert!(error("large").contains("bytes"), "{answers:?}");
    assert!(answers["uid-good"].is_ok(), "{answers:?}");
}

#[tokio::test]
async fn the_fake_reports_an_invalid_device_that_kubelet_accepts() {
    let node = Node::new();
    let claims = Claims::allocated(&["twice", "good"]);
    let _plugin = node.registered(odd(), claims).await;
    let mut pod = node.kubelet.run_pod(pod("p", &["twice", "good"]));
    reaches(&mut pod, dra_kubelet::testing::Phase::Running).await;
    let invalid: Vec<_> = node
        .kubelet
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::InvalidDevice { claim, reason, .. } => Some((claim, reason)),
            _ => None,
        })
        .collect();
    let reason = "n1/d0 is returned twice with the same share id";
    assert_eq!(invalid, [("uid-twice".to_owned(), reason.to_owned())]);
}

#[tokio::test]
async fn health_of_thousands_of_devices_with_long_messages_arrives() {
    let device = |n| DeviceHealth {
        pool: "n1".into(),
        device: format!("d{n}"),
        health: Health::Unhealthy,
        message: "m".repeat(1024),
    };
    let (_sender, health) = watch::channel((0..5000).map(device).collect::<Vec<_>>());
    let node = Node::new();
    let _plugin = node.start_with(DRIVER, Script::instant(), Claims::default(), |builder| {
        builder.health(health)
    });
    let is_whole = |event: &Event| matches!(event, Event::HealthReported { devices, .. } if devices.len() == 5000);
    node.until("the report", |events| events.iter().any(is_whole))
        .await;
    let last = node.kubelet.health(DRIVER, "n1", "d4999");
    assert_eq!(last.health, Health::Unhealthy);
    assert!(last.message.len() > 500, "{}", last.message.len());
}

// req: KUBELET-1
#[tokio::test]
async fn a_plugin_that_is_notified_of_its_registration_can_already_be_called() {
    let node = Node::new();
    let plugin = node.start(Script::instant(), Claims::allocated(&["a"]));
    let mut state = plugin.registration();
    let registered = |state: &Registration| state.is_registered();
    soon("Notify", state.wait_for(registered)).await.unwrap();
    assert_eq!(node.kubelet.endpoints(DRIVER).len(), 1);
    let claims = [claim_ref("a")];
    let answers = node.kubelet.prepare(DRIVER, &claims);
    assert!(soon("the answer", answers).await.unwrap()["uid-a"].is_ok());
}
