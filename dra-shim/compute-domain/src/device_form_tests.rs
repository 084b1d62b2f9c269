//! The device's form after earlier sharing; minutes of paused time.

use std::fs;

use daemon_runtime::{Liveness, Readiness};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::*;
use crate::tests::api_server::{ApiServer, DOMAIN};
use crate::tests::node::{NODE, TestNode, open};

const MANY: Sharing = Sharing::Many { slots: 8 };
const DRAINING: DeviceForm = DeviceForm::Draining { slots: 8 };
const UNDECIDED: DeviceForm = DeviceForm::Undecided;
const GIVE_UP: Duration = Duration::from_secs(24 * 60 * 60);

/// The running task, until it is dropped, and its outputs.
struct Running {
    form: watch::Receiver<DeviceForm>,
    unsupported_fields: watch::Sender<UnsupportedFields>,
    readiness: Readiness,
    _stop: tokio_util::sync::DropGuard,
}

fn run(node: &TestNode, server: &ApiServer, sharing: Sharing) -> Running {
    let (form, seen) = watch::channel(DeviceForm::Undecided);
    let (unsupported_fields, seen_to_drop) = watch::channel(UnsupportedFields::default());
    let readiness = Readiness::default();
    let task = DeviceFormTask {
        sharing,
        data_dir: node.data_dir(),
        shared_claims: node.driver.shared_claims.clone(),
        node_device: NodeDeviceLookup::new(server.client(), NODE),
        pods: PodLookup::new(server.client(), NODE),
        form,
        unsupported_fields: seen_to_drop,
        marker_ready: readiness.add_condition("device-marker", "not yet"),
        heartbeat: Liveness::default().add("device-form", Duration::from_secs(600)),
        events: node.driver.events.clone(),
        node: ObjectReference::default(),
    };
    let stop = CancellationToken::new();
    tokio::spawn(task.run(stop.clone()));
    Running {
        form: seen,
        unsupported_fields,
        readiness,
        _stop: stop.drop_guard(),
    }
}

impl Running {
    /// Waits for the first form other than `Undecided`.
    async fn first(&mut self) -> DeviceForm {
        let decided = self.form.wait_for(|form| *form != DeviceForm::Undecided);
        *timeout(GIVE_UP, decided).await.unwrap().unwrap()
    }

    /// Returns how long the device takes to become exclusive.
    async fn until_exclusive(&mut self) -> Duration {
        let began = Instant::now();
        let exclusive = self.form.wait_for(|form| *form == DeviceForm::Exclusive);
        timeout(GIVE_UP, exclusive).await.unwrap().unwrap();
        began.elapsed()
    }

    async fn stays(&self, form: DeviceForm, time: Duration) {
        sleep(time).await;
        assert_eq!(*self.form.borrow(), form);
    }

    async fn stays_draining(&self, time: Duration) {
        self.stays(DRAINING, time).await;
    }

    fn unmet(&self) -> Option<String> {
        self.readiness.unmet().pop().map(|(_, reason)| reason)
    }
}

/// A node whose device was shared, and an API server with a prepared claim of a share.
async fn mk_shared() -> (ApiServer, TestNode) {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    server.put_claim("ns", "holder");
    server.change_claim("ns", "holder", |claim| {
        claim["status"]["allocation"]["devices"]["results"][0]["shareID"] = json!("share-1");
    });
    let node = TestNode::start(&server);
    let first = run(&node, &server, MANY).first().await;
    assert_eq!(first, DeviceForm::Shared { slots: 8 });
    node.prepare("ns", "holder").await.unwrap();
    sleep(Duration::from_secs(60)).await; // until its report is written
    server.requests();
    (server, node)
}

#[tokio::test(start_paused = true)]
async fn a_device_that_was_never_shared_is_exclusive_at_once_without_requests() {
    let server = ApiServer::default();
    let node = TestNode::start(&server);
    let mut running = run(&node, &server, Sharing::One);
    assert_eq!(running.first().await, DeviceForm::Exclusive);
    assert_eq!(server.requests(), [""; 0]);
}

// req: CHANNEL-5
#[tokio::test(start_paused = true)]
async fn a_shared_device_is_exclusive_once_no_record_and_no_allocation_is_left() {
    let (server, node) = mk_shared().await;
    let mut running = run(&node, &server, Sharing::One);
    assert_eq!(running.first().await, DRAINING);
    running.stays_draining(Duration::from_secs(3600)).await;
    assert_eq!(server.requests(), [""; 0], "while there is a record");

    // The claim is unprepared, and still allocated.
    node.claims
        .unprepare("holder", node_claims::Moment::now())
        .unwrap();
    running.stays_draining(Duration::from_secs(3600)).await;
    let requests = server.requests();
    // Pauses of 1 to 2 minutes, 2 to 4, 4 to 8, 8 to 16, then 10 to 20.
    assert!((8..=20).contains(&requests.len()), "{requests:?}");

    server.delete_claim("ns", "holder");
    let took = running.until_exclusive().await;
    assert!(took <= 2 * LONGEST_PAUSE, "{took:?}");
    assert_eq!(server.requests(), ["list pods", "list resourceclaims"]);
    drop(running);

    let mut again = run(&node, &server, Sharing::One);
    assert_eq!(again.first().await, DeviceForm::Exclusive);
    assert_eq!(server.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_a_pods_claim_keeps_the_device_shared_without_a_record() {
    let (server, node) = mk_shared().await;
    node.claims
        .unprepare("holder", node_claims::Moment::now())
        .unwrap();
    // Without the label, but named by a pod.
    server.put_claim("other", "of-a-pod");
    server.delete_claim("ns", "holder");
    server.put_pod("other", "of-a-pod", "Pending");
    let mut running = run(&node, &server, Sharing::One);
    assert_eq!(running.first().await, DRAINING);
    running.stays_draining(Duration::from_secs(3600)).await;
    let requests = server.requests();
    assert!(requests.len() >= 8, "{requests:?}");
    assert!(
        requests
            .chunks(2)
            .all(|pair| pair == ["list pods", "get resourceclaims"]),
        "{requests:?}"
    );
    server.change_claim("other", "of-a-pod", |claim| {
        claim["status"] = json!({});
    });
    running.until_exclusive().await;
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_api_server_keeps_the_device_draining() {
    let (server, node) = mk_shared().await;
    node.claims
        .unprepare("holder", node_claims::Moment::now())
        .unwrap();
    server.delete_claim("ns", "holder");
    server.refuse(Some((503, "")));
    let mut running = run(&node, &server, Sharing::One);
    assert_eq!(running.first().await, DRAINING);
    running.stays_draining(Duration::from_secs(3600)).await;
    server.refuse(None);
    running.until_exclusive().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_before_the_device_is_marked() {
    let server = ApiServer::default();
    let node = TestNode::start(&server);
    // A directory is in the marker's place.
    let marker = marker_of(&node);
    for sharing in [MANY, Sharing::One] {
        fs::create_dir(&marker).unwrap();
        let mut running = run(&node, &server, sharing);
        running.stays(UNDECIDED, 100 * DISK_PAUSE).await;
        let reason = running.unmet().unwrap();
        assert!(reason.contains(marker.to_str().unwrap()), "{reason}");
        assert!(reason.contains("rename or remove"), "{reason}");
        let event = format!("Warning DeviceMarkerNotUsable: {reason}");
        assert_eq!(server.events(), [event]);
        fs::remove_dir(&marker).unwrap();
        assert_ne!(running.first().await, UNDECIDED);
        assert_eq!(running.unmet(), None);
        let _ = fs::remove_file(&marker);
    }
    let mut running = run(&node, &server, MANY);
    assert_eq!(running.first().await, DeviceForm::Shared { slots: 8 });
    assert_eq!(fs::read_to_string(&marker).unwrap(), "8");
    // A second start changes nothing.
    drop(running);
    assert_eq!(
        run(&node, &server, MANY).first().await,
        DeviceForm::Shared { slots: 8 }
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_marker_a_recorded_share_drains_the_device_and_restores_the_marker() {
    let (server, node) = mk_shared().await;
    fs::remove_file(marker_of(&node)).unwrap();
    let began = Instant::now();
    let mut running = run(&node, &server, Sharing::One);
    let draining = DeviceForm::Draining { slots: 1 };
    assert_eq!(running.first().await, draining);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(marker_of(&node).exists());
    running.stays(draining, Duration::from_secs(3600)).await;
    node.claims
        .unprepare("holder", node_claims::Moment::now())
        .unwrap();
    server.delete_claim("ns", "holder");
    running.until_exclusive().await;
    assert!(!marker_of(&node).exists());
}

#[tokio::test(start_paused = true)]
async fn without_the_marker_nothing_is_published_until_the_records_are_known() {
    // Whether the claim lost by a damaged checkpoint is still allocated, and the resulting form.
    for (is_allocated, form) in [
        (true, DeviceForm::Draining { slots: 1 }),
        (false, DeviceForm::Exclusive),
    ] {
        let (server, node) = mk_shared().await;
        fs::remove_file(marker_of(&node)).unwrap();
        let lost = BTreeSet::from(["holder".to_owned()]);
        let mut allocated = node.lookup.find_allocated(&lost).await.unwrap();
        node.driver.shared_claims.set_unavailable("a disk");
        let mut running = run(&node, &server, Sharing::One);
        running.stays(UNDECIDED, Duration::from_secs(3600)).await;

        fs::write(node.data_dir().join("checkpoint.json"), "torn").unwrap();
        let claims = open(node.root.path(), None);
        node.driver.shared_claims.set_available(Arc::clone(&claims));
        running.stays(UNDECIDED, Duration::from_secs(3600)).await;

        allocated.retain(|_| is_allocated);
        claims.rebuild(allocated, &None).unwrap();
        assert_eq!(running.first().await, form);
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_device_is_shared_a_missing_marker_is_written_again() {
    let (server, node) = mk_shared().await;
    let marker = marker_of(&node);
    let running = run(&node, &server, MANY);
    sleep(MARKER_CHECK_INTERVAL / 2).await;
    fs::remove_file(&marker).unwrap();
    sleep(MARKER_CHECK_INTERVAL).await;
    assert_eq!(fs::read_to_string(&marker).unwrap(), "8");

    fs::remove_file(&marker).unwrap();
    fs::create_dir(&marker).unwrap();
    running
        .stays(DeviceForm::Shared { slots: 8 }, 2 * MARKER_CHECK_INTERVAL)
        .await;
    assert!(running.unmet().unwrap().contains("not a regular file"));
    fs::remove_dir(&marker).unwrap();
    sleep(2 * DISK_PAUSE).await;
    assert_eq!((running.unmet(), marker.exists()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn the_marker_records_that_the_api_server_drops_sharing_until_a_restart() {
    let (server, node) = mk_shared().await;
    let is_dropped = || SharedMarker::decode(&fs::read(marker_of(&node)).unwrap()).is_dropped;
    let mut running = run(&node, &server, MANY);
    running.first().await;
    running
        .unsupported_fields
        .send_modify(|unsupported_fields| unsupported_fields.sharing = true);
    sleep(DISK_PAUSE).await;
    assert!(is_dropped());
    drop(running);
    // The next process does not know yet.
    run(&node, &server, MANY).first().await;
    assert!(!is_dropped());
}

fn marker_of(node: &TestNode) -> std::path::PathBuf {
    node.data_dir().join(SHARED_MARKER)
}
