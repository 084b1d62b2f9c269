use compute_domain_api::Isolation;
use compute_domain_core::Obstacle;

use super::*;
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;

const TO_NONE: DriverChange = DriverChange::Run {
    isolation: Isolation::None,
    mode: Mode::HostManaged,
    installed: None,
};

const TO_DRIVER_MANAGED: DriverChange = DriverChange::Run {
    isolation: Isolation::Channel,
    mode: Mode::DriverManaged,
    installed: None,
};

async fn check_on(api: &FakeApi, change: DriverChange) -> Preflight {
    let preflight = check(&api.client(), change, &[]).await.unwrap();
    assert_eq!(api.writes(), 0);
    preflight
}

fn mk_daemon_template(domain_uid: &str) -> Value {
    let mut template = mk_template_of_go("daemons", domain_uid);
    template["metadata"]["labels"][TARGET_LABEL] = json!(TARGET_DAEMON);
    in_namespace("nvidia", template)
}

#[tokio::test(start_paused = true)]
async fn domains_on_any_page_block_an_uninstallation() {
    let api = FakeApi::new();
    assert_eq!(check_on(&api, DriverChange::Uninstall).await.obstacle, None);
    for number in 0..501 {
        api.create(mk_domain(&format!("d{number}")));
    }
    let preflight = check_on(&api, DriverChange::Uninstall).await;
    assert_eq!(preflight.obstacle, Some(Obstacle::LiveDomains));
    assert_eq!(preflight.domains.len(), 501);
    assert_eq!(api.count(Call::ListDomains), 3);
}

#[tokio::test(start_paused = true)]
async fn a_domain_with_an_invalid_status_still_counts() {
    let api = FakeApi::new();
    for (name, status) in [
        ("text", json!("Ready")),
        ("channel", json!({ "channel": "five" })),
        ("null", Value::Null),
    ] {
        api.create(mk_domain(name));
        api.edit(Resource::Domains, TEAM, name, |domain| {
            domain["status"] = status;
        });
    }
    assert_eq!(
        check_on(&api, DriverChange::Uninstall).await.domains.len(),
        3
    );
    assert_eq!(check_on(&api, TO_NONE).await.obstacle, None);
}

#[tokio::test(start_paused = true)]
async fn a_domain_with_its_own_channel_blocks_isolation_none() {
    let api = FakeApi::new();
    for (name, channel) in [("own", 7), ("shared", 0)] {
        api.create(mk_domain(name));
        api.edit(Resource::Domains, TEAM, name, |domain| {
            domain["status"] = json!({ "channel": channel });
        });
    }
    let refused = check_on(&api, TO_NONE).await;
    assert_eq!(refused.obstacle, Some(Obstacle::OwnChannels));
    assert_eq!(refused.domains, ["team/own"]);
    let kept = check_on(&api, TO_DRIVER_MANAGED).await;
    assert_eq!(kept.obstacle, None);
}

// req: MODE-13
#[tokio::test(start_paused = true)]
async fn a_domain_of_the_other_mode_blocks_an_installation() {
    let api = FakeApi::new();
    for (name, condition) in [("hosts", None), ("driver", Some("NodesReady"))] {
        api.create(mk_domain(name));
        let conditions = ["Ready"].into_iter().chain(condition);
        let conditions: Value = conditions
            .map(|kind| json!({ "type": kind, "status": "True" }))
            .collect();
        api.edit(Resource::Domains, TEAM, name, |domain| {
            domain["status"] = json!({ "conditions": conditions });
        });
    }
    api.create(mk_domain("new"));
    for (to, domain) in [(TO_NONE, "team/driver"), (TO_DRIVER_MANAGED, "team/hosts")] {
        let refused = check_on(&api, to).await;
        assert_eq!(refused.obstacle, Some(Obstacle::ModeChanges));
        assert_eq!(refused.domains, [domain]);
    }
}

// req: MODE-13
#[tokio::test(start_paused = true)]
async fn daemons_block_only_for_their_own_domain() {
    let api = FakeApi::new();
    let uid = uid(&api.create(mk_domain("a")));
    api.create(mk_domain("b"));
    api.create(mk_daemon_template(&uid));
    let refused = check_on(&api, TO_NONE).await;
    assert_eq!(refused.obstacle, Some(Obstacle::ImexDaemons));
    assert_eq!(refused.domains, ["team/a"]);
    // Daemons of a deleted domain block nothing.
    api.delete(Resource::Domains, TEAM, "a");
    assert_eq!(check_on(&api, TO_NONE).await.obstacle, None);
}

// req: MODE-36
#[tokio::test(start_paused = true)]
async fn daemons_that_the_controller_removes_block_nothing_and_others_do() {
    let api = FakeApi::new();
    let uid = uid(&api.create(mk_domain("a")));
    api.create(mk_daemon_template(&uid));
    for (namespace, obstacle) in [("nvidia", None), ("imex-dra", Some(Obstacle::ImexDaemons))] {
        let removed_in = [namespace.to_owned()];
        let checked = check(&api.client(), TO_DRIVER_MANAGED, &removed_in)
            .await
            .unwrap();
        assert_eq!(checked.obstacle, obstacle, "{namespace}");
    }
}

// req: MODE-13
#[tokio::test(start_paused = true)]
async fn the_installed_mode_is_determined_by_daemons() {
    let api = FakeApi::new();
    let settings = |feature_gates| {
        let options = compute_domain_api::ImexOptions {
            feature_gates,
            ..Default::default()
        };
        options.resolve().unwrap()
    };
    let (hosts, driver) = (settings("HostManagedIMEX=true"), settings(""));
    let client = api.client();
    let installed =
        async |step, settings: &Settings| match change(&client, "imex-dra", step, Some(settings))
            .await
            .unwrap()
        {
            DriverChange::Run {
                mode, installed, ..
            } => {
                assert_eq!(mode, settings.mode);
                installed
            }
            DriverChange::Uninstall => panic!("it is none"),
        };
    let (host_managed, driver_managed) = (Some(Mode::HostManaged), Some(Mode::DriverManaged));
    assert_eq!(installed(Step::Upgrade, &hosts).await, host_managed);
    assert_eq!(installed(Step::Upgrade, &driver).await, host_managed);
    assert_eq!(installed(Step::Install, &driver).await, None);
    api.create(mk_daemon_set(DRIVER_MANAGED_LABEL));
    assert_eq!(installed(Step::Upgrade, &driver).await, driver_managed);
    assert_eq!(installed(Step::Rollback, &hosts).await, driver_managed);
    assert_eq!(api.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_crd_there_are_no_domains() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::ListDomains, Fault::NotServed));
    assert_eq!(check_on(&api, DriverChange::Uninstall).await.obstacle, None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_gives_no_verdict() {
    for call in [Call::ListDomains, Call::ListDaemonTemplates] {
        for fault in [
            Fault::Forbidden("no"),
            Fault::Unavailable,
            Fault::AnswerLost,
        ] {
            let api = FakeApi::new();
            api.break_with(Rule::always(call, fault));
            let checked = check(&api.client(), DriverChange::Uninstall, &[]).await;
            assert!(checked.is_err(), "{call:?} {fault:?}");
        }
    }
}

fn mk_daemon_set(label: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": "plugin", "namespace": "imex-dra", "labels": { label: "true" } },
    })
}

fn create_claim(api: &FakeApi, name: &str, status: &Value) {
    api.create(mk_claim(name, "uid"));
    api.edit(Resource::Claims, TEAM, name, |claim| {
        claim["status"] = status.clone();
    });
}

// req: CHART-25
#[tokio::test(start_paused = true)]
async fn only_pods_that_hold_devices_of_the_installed_gpu_plugin_block_its_end() {
    let api = FakeApi::new();
    let of_driver = |driver: &str, pods: &[&str]| {
        let pods = pods
            .iter()
            .map(|name| json!({ "resource": "pods", "name": name, "uid": name }));
        let other = json!({ "driver": "d", "pool": "n", "device": "d" });
        let result = json!({ "driver": driver, "pool": "node1", "device": "gpu-0" });
        json!({
            "allocation": { "devices": { "results": [other, result] } },
            "reservedFor": pods.collect::<Vec<_>>(),
        })
    };
    create_claim(&api, "shared", &of_driver("gpu.nvidia.com", &["b", "a"]));
    create_claim(&api, "second", &of_driver("gpu.nvidia.com", &["a"]));
    create_claim(&api, "unused", &of_driver("gpu.nvidia.com", &[]));
    create_claim(
        &api,
        "channel",
        &of_driver("compute-domain.nvidia.com", &["c"]),
    );
    create_claim(&api, "pending", &json!({}));
    create_claim(
        &api,
        "damaged",
        &json!({ "allocation": 5, "reservedFor": "d" }),
    );
    let checked = async || check_gpus(&api.client(), "imex-dra").await.unwrap();
    api.create(mk_daemon_set(DRIVER_MANAGED_LABEL));
    assert_eq!(checked().await, Preflight::default());
    assert_eq!(api.count(Call::ListAllocations), 0);

    api.delete(Resource::DaemonSets, "imex-dra", "plugin");
    api.create(mk_daemon_set(GPUS_LABEL));
    let refused = checked().await;
    assert_eq!(refused.obstacle, Some(Obstacle::PodsWithGpus));
    assert_eq!(refused.pods, ["team/a", "team/b"]);
    assert_eq!(api.count(Call::ListAllocations), 1);
    assert_eq!(api.writes(), 0);
    let object = as_json(Step::Upgrade, false, &refused);
    assert_eq!(object["obstacle"], "pods-with-gpus");
    assert_eq!(object["pods"], json!(["team/a", "team/b"]));

    api.break_with(Rule::always(Call::ListAllocations, Fault::Unavailable));
    assert!(check_gpus(&api.client(), "imex-dra").await.is_err());
}

#[test]
fn the_json_has_the_same_verdict_as_the_sentence() {
    let domain = LiveDomain {
        namespace: "team".into(),
        name: "a".into(),
        channel: None,
        mode: None,
        has_daemons: false,
    };
    let refused = Preflight::of(DriverChange::Uninstall, &[domain]);
    let report_of = |overridden| as_json(Step::Uninstall, overridden, &refused);
    let object = report_of(false);
    assert_eq!(object["verdict"], "refused");
    assert_eq!(object["obstacle"], "live-domains");
    assert_eq!(object["domains"], json!(["team/a"]));
    assert_eq!(
        object["sentence"],
        json!(sentence(Step::Uninstall, false, &refused))
    );
    assert_eq!(report_of(true)["verdict"], "overridden");
    let allowed = as_json(Step::Install, false, &Preflight::of(TO_NONE, &[]));
    assert_eq!(allowed["verdict"], "allowed");
    assert_eq!(allowed["obstacle"], Value::Null);
}
