//! Leftovers of the Go driver's driver-managed mode.

use std::time::Duration;

use compute_domain_api::names::{DOMAIN_LABEL, TARGET_DAEMON, TARGET_LABEL};
use serde_json::{Value, json};

use crate::fake_api::{FakeApi, Resource};
use crate::testing::logs::Logs;
use crate::testing::objects::*;
use crate::testing::{Controller, DRIVER_NAMESPACE};

const DAEMONS: &str = "computedomain-daemon-x";

fn mk_daemon_template(namespace: &str, domain_uid: &str) -> Value {
    let mut template = mk_template_of_go(DAEMONS, domain_uid);
    template["metadata"]["labels"][TARGET_LABEL] = json!(TARGET_DAEMON);
    in_namespace(namespace, template)
}

// req: CD-16, CD-17
#[tokio::test(start_paused = true)]
async fn leftovers_are_reported_with_the_commands_to_remove_them_and_never_changed() {
    let logs = Logs::start();
    let api = FakeApi::new();
    let uid = uid(&api.create(mk_domain("a")));
    let left = [
        api.create(mk_daemon_template(DRIVER_NAMESPACE, &uid)),
        api.create(json!({
            "kind": "DaemonSet",
            "metadata": { "name": DAEMONS, "namespace": DRIVER_NAMESPACE, "labels": { DOMAIN_LABEL: uid } },
        })),
        api.create(json!({ "kind": "Node", "metadata": { "name": "node-1", "labels": { DOMAIN_LABEL: uid } } })),
    ];
    let controller = Controller::start(&api);
    controller.settle().await;
    api.until("rejected", |api| {
        reason(api, "a") == "DriverManagedLeftovers"
    })
    .await;
    let message = message(&api, "a");
    assert!(
        message.contains(
            "kubectl delete -n nvidia daemonset,resourceclaimtemplate computedomain-daemon-x"
        ),
        "{message}"
    );
    assert_eq!(api.event_note("DriverManagedLeftovers"), Some(message));
    for (line, name, command) in [
        (
            "ResourceClaimTemplates of the Go driver's driver-managed mode",
            "nvidia/computedomain-daemon-x",
            "--additional-namespaces",
        ),
        (
            "DaemonSets of the Go driver's driver-managed mode",
            "computedomain-daemon-x",
            "kubectl delete daemonset -n nvidia -l resource.nvidia.com/computeDomain",
        ),
        (
            "nodes have the label of the Go driver's driver-managed mode",
            "node-1",
            "kubectl label nodes",
        ),
    ] {
        let lines = logs.with(line);
        assert_eq!(lines.len(), 1, "{line}");
        assert!(
            lines[0].contains(name) && lines[0].contains(command),
            "{lines:?}"
        );
    }
    api.after(Duration::from_secs(600)).await;
    let resources = [Resource::Templates, Resource::DaemonSets, Resource::Nodes];
    assert_eq!(resources.map(|resource| api.all(resource)[0].clone()), left);

    // The administrator follows the message.
    api.edit(Resource::Templates, DRIVER_NAMESPACE, DAEMONS, |it| {
        it["metadata"]["finalizers"] = json!([]);
    });
    api.delete(Resource::Templates, DRIVER_NAMESPACE, DAEMONS);
    api.until("ready", |api| is_ready(api, "a")).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_leftovers_nothing_is_logged() {
    let logs = Logs::start();
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    assert_eq!(logs.with("driver-managed"), [""; 0]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_template_in_a_user_namespace_is_not_a_leftover() {
    let api = FakeApi::new();
    let uid = uid(&api.create(mk_domain("a")));
    api.create(mk_daemon_template("elsewhere", &uid));
    let controller = Controller::start(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    controller.stop().await;
}
