//! This plugin takes over a node of the Go driver: prepared claims stay prepared, all claims can be
//! unprepared, and the Go driver can read the resulting files.

use std::fs;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::GIVE_UP;
use crate::go_driver::{self, BOOT, Checkpoint, Record};
use crate::go_node::{answered, begin, changed, has_channel_0, left, left_with, reference, until};
use crate::ground::Ground;
use crate::node::claim;

const CHANNEL: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
const STARTED: &str = "22222222-aaaa-4bbb-8ccc-000000000002";
const ABORTED: &str = "33333333-aaaa-4bbb-8ccc-000000000003";
const DAEMON: &str = "44444444-aaaa-4bbb-8ccc-000000000004";
const RC2: &str = "66666666-aaaa-4bbb-8ccc-000000000006";
const NO_CLIQUE: &str = "77777777-aaaa-4bbb-8ccc-000000000007";
const OTHER_BOOT: &str = "11111111-2222-4333-8444-555555555555";

/// More than the fence of an aborted record plus the pause until the next check for expired ones.
const EXPIRED_WITHIN: Duration = Duration::from_secs(150);

// req: CKPT-18
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn claims_prepared_by_the_go_driver_keep_their_bytes_and_answers_and_can_be_unprepared() {
    let cases = [
        (
            "02-channel-completed",
            CHANNEL,
            Some(go_driver::channel_spec(CHANNEL)),
        ),
        (
            "13-unknown-top-level-key",
            CHANNEL,
            Some(go_driver::channel_spec(CHANNEL)),
        ),
        (
            "05-daemon-completed",
            DAEMON,
            Some(go_driver::daemon_spec(DAEMON)),
        ),
        ("08-channel-completed-no-clique", NO_CLIQUE, None),
    ];
    for (name, uid, spec) in cases {
        println!("{name}");
        let (ground, claims) = left(name, BOOT).await;
        if let Some(spec) = &spec {
            ground.leave_spec(uid, spec);
        }
        let base = ground
            .cdi()
            .join("k8s.compute-domain.nvidia.com-device_base.yaml");
        fs::create_dir_all(ground.cdi()).unwrap();
        fs::write(&base, "its own\n").unwrap();
        let node = begin(ground).await;
        let held = &claims[0];
        for _ in 0..2 {
            let devices = node.prepare(&reference(held)).await.unwrap();
            assert_eq!(devices, answered(&held.1), "{name}");
        }
        let refused = node.prepare(&claim("a")).await;
        assert_eq!(refused.is_err(), uid != DAEMON, "{refused:?}");
        if uid == DAEMON {
            node.unprepare(&claim("a")).await.unwrap();
        } else {
            assert_eq!(node.checkpoint(), go_driver::checkpoint(name), "{name}");
        }
        match node.kept().spec_of(uid) {
            // A claim without a device has no spec.
            kept if uid != CHANNEL => assert_eq!(kept, spec.as_ref()),
            kept => assert!(has_channel_0(kept.unwrap(), uid), "{name}: {kept:?}"),
        }
        node.unprepare(&reference(held)).await.unwrap();
        assert_eq!(node.states(), [], "{name}");
        assert_eq!(node.kept().spec_of(uid), None, "{name}");
        assert!(base.exists());
        node.prepares_and_unprepares_another_claim().await;
    }
}

// req: CKPT-18
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn a_prepare_begun_by_the_go_driver_is_completed_or_aborted_and_its_record_removed() {
    let (ground, claims) = left("03-channel-started", BOOT).await;
    ground.leave_spec(STARTED, &go_driver::channel_spec(STARTED));
    let node = begin(ground).await;
    assert_eq!(
        node.checkpoint(),
        go_driver::checkpoint("03-channel-started")
    );
    let started = reference(&claims[0]);
    let devices = node.prepare(&started).await.unwrap();
    let id = format!("k8s.compute-domain.nvidia.com/claim={STARTED}-channel-0");
    assert_eq!(devices[0].cdi_ids, [id]);
    let kept = node.kept();
    assert!(
        has_channel_0(kept.spec_of(STARTED).unwrap(), STARTED),
        "{kept:?}"
    );
    node.unprepare(&started).await.unwrap();
    assert_eq!(node.states(), []);

    let (ground, claims) = left("03-channel-started", BOOT).await;
    ground.leave_spec(STARTED, &go_driver::channel_spec(STARTED));
    let node = begin(ground).await;
    node.unprepare(&reference(&claims[0])).await.unwrap();
    assert_eq!(
        node.states(),
        [(STARTED.to_owned(), "PrepareAborted".to_owned())]
    );
    assert_eq!(node.kept().spec_of(STARTED), None);
    until("the record expires", EXPIRED_WITHIN, || {
        node.states().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn a_record_aborted_by_the_go_driver_expires() {
    let now = now_in_go_form();
    let cases = [
        (go_driver::checkpoint("04-channel-aborted"), true),
        (
            changed("04-channel-aborted", |it| it.aborted_at = None),
            true,
        ),
        (
            changed("04-channel-aborted", |it| it.aborted_at = Some(now)),
            false,
        ),
    ];
    for (bytes, over) in cases {
        let (ground, claims) = left_with(&bytes, BOOT).await;
        let node = begin(ground).await;
        if !over {
            let refused = node.prepare(&reference(&claims[0])).await.unwrap_err();
            assert!(refused.contains("interrupted this Prepare"), "{refused}");
            assert_eq!(node.states()[0].0, ABORTED);
        }
        let limit = if over { GIVE_UP } else { EXPIRED_WITHIN };
        until("the record expires", limit, || node.states().is_empty()).await;
        let devices = node.prepare(&reference(&claims[0])).await.unwrap();
        assert_eq!(devices[0].device, "channel-0");
    }
}

fn now_in_go_form() -> String {
    let output = std::process::Command::new("date")
        .args(["-u", "+%FT%TZ"])
        .output();
    String::from_utf8(output.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn records_without_a_boot_id_belong_to_this_boot_only_if_a_spec_proves_it() {
    for name in ["09-v1-only-25.3.x", "10-v2-no-bootid-25.8-to-25.12"] {
        println!("{name}");
        let (ground, claims) = left(name, BOOT).await;
        // One spec is enough.
        ground.leave_spec(CHANNEL, &go_driver::channel_spec(CHANNEL));
        let node = begin(ground).await;
        assert_eq!(node.states().len(), claims.len());
        assert_eq!(Checkpoint::read(&node.checkpoint()).boot(), BOOT, "{name}");
        let held = claims.iter().find(|(uid, _)| uid == CHANNEL).unwrap();
        let devices = node.prepare(&reference(held)).await.unwrap();
        assert_eq!(devices, answered(&held.1), "{name}");
        for held in &claims {
            node.unprepare(&reference(held)).await.unwrap();
        }
        assert_eq!(node.states(), [], "{name}");
        node.prepares_and_unprepares_another_claim().await;

        let (ground, _) = left(name, BOOT).await;
        let node = begin(ground).await;
        assert_eq!(node.states(), [], "{name}");
        assert_eq!(Checkpoint::read(&node.checkpoint()).boot(), BOOT, "{name}");
        node.prepares_and_unprepares_another_claim().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn a_record_without_a_status_keeps_its_device_until_it_is_unprepared() {
    let mut ground = Ground::new().await;
    ground.set_boot(BOOT);
    ground.leave_checkpoint(go_driver::checkpoint("12-legacy-25.3.0-rc.2"));
    ground.leave_spec(RC2, &go_driver::channel_spec(RC2));
    let node = begin(ground).await;
    assert_eq!(
        node.states(),
        [(RC2.to_owned(), "PrepareCompleted".to_owned())]
    );
    let refused = node.prepare(&claim("a")).await.unwrap_err();
    assert!(refused.contains(RC2), "{refused}");
    node.unprepare(&claim(RC2)).await.unwrap();
    assert_eq!(node.states(), []);
    assert_eq!(node.kept().spec_of(RC2), None);
    node.prepares_and_unprepares_another_claim().await;
}

// req: NODE-26
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn records_and_specs_of_an_earlier_boot_are_removed_in_any_state() {
    for name in [
        "02-channel-completed",
        "03-channel-started",
        "04-channel-aborted",
        "05-daemon-completed",
        "06-unicode-html",
        "01-empty",
    ] {
        println!("{name}");
        let (ground, claims) = left(name, OTHER_BOOT).await;
        for (uid, _) in &claims {
            ground.leave_spec(uid, &go_driver::channel_spec(uid));
        }
        let node = begin(ground).await;
        assert_eq!(node.states(), [], "{name}");
        assert_eq!(
            node.kept().claims_with_specs(),
            Vec::<&str>::new(),
            "{name}"
        );
        node.prepares_and_unprepares_another_claim().await;
        assert_eq!(
            Checkpoint::read(&node.checkpoint()).boot(),
            OTHER_BOOT,
            "{name}"
        );
    }
}

// req: NODE-20
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root for its own boot id: hack/test.sh runs it"]
async fn a_claim_with_an_unknown_config_can_be_unprepared() {
    let unknown = |record: &mut Record| {
        let status = record
            .status
            .get()
            .replace("ComputeDomainChannelConfig", "FutureConfig");
        record.status = RawValue::from_string(status).unwrap();
    };
    for (name, after) in [
        ("03-channel-started", Some("PrepareAborted")),
        ("02-channel-completed", None),
    ] {
        let (ground, claims) = left_with(&changed(name, unknown), BOOT).await;
        let (uid, _) = &claims[0];
        ground.leave_spec(uid, &go_driver::channel_spec(uid));
        let node = begin(ground).await;
        node.unprepare(&reference(&claims[0])).await.unwrap();
        let state = node.states().into_iter().next().map(|(_, state)| state);
        assert_eq!(state.as_deref(), after, "{name}");
        assert_eq!(node.kept().spec_of(uid), None, "{name}");
        node.prepares_and_unprepares_another_claim().await;
    }
}
