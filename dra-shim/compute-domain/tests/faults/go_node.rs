//! A node left by the Go driver, and checks after this plugin has taken it over.

use std::fs;
use std::time::Duration;

use dra_kubelet::{ClaimRef, PreparedDevice};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::driver_root::HEALTHY;
use crate::go_driver::{self, Checkpoint, Record};
use crate::ground::Ground;
use crate::node::{Node, claim};

/// A node in this boot with this checkpoint; its claims are on the API server.
pub(crate) async fn left(name: &str, boot: &str) -> (Ground, Vec<(String, Record)>) {
    left_with(&go_driver::checkpoint(name), boot).await
}

pub(crate) async fn left_with(bytes: &[u8], boot: &str) -> (Ground, Vec<(String, Record)>) {
    let mut ground = Ground::new().await;
    ground.set_boot(boot);
    ground.leave_checkpoint(bytes);
    let claims = Checkpoint::read(bytes).claims();
    for (uid, record) in &claims {
        ground.leave_claim(uid, record);
    }
    (ground, claims)
}

/// The checkpoint `name` with its one record changed.
pub(crate) fn changed(name: &str, change: impl FnOnce(&mut Record)) -> Vec<u8> {
    let mut file = Checkpoint::read(&go_driver::checkpoint(name));
    change(file.records().values_mut().next().unwrap());
    file.write().into_bytes()
}

pub(crate) async fn begin(ground: Ground) -> Node {
    let mut node = Node::start_on(ground, &[], HEALTHY, &[]);
    node.until_ready().await;
    node
}

pub(crate) fn reference((uid, record): &(String, Record)) -> ClaimRef {
    ClaimRef {
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        uid: uid.clone(),
    }
}

/// The devices in the Go driver's answer to Prepare.
pub(crate) fn answered(record: &Record) -> Vec<PreparedDevice> {
    let groups: Value =
        serde_json::from_str(record.prepared_devices.as_ref().unwrap().get()).unwrap();
    let devices = groups.as_array().unwrap().iter().flat_map(|group| {
        let devices = group["devices"].as_array().unwrap();
        devices.iter().map(|it| {
            if it["channel"].is_null() {
                &it["daemon"]
            } else {
                &it["channel"]
            }
        })
    });
    let texts = |list: &Value| serde_json::from_value(list.clone()).unwrap();
    devices
        .map(|held| PreparedDevice {
            requests: texts(&held["device"]["Requests"]),
            pool: held["device"]["PoolName"].as_str().unwrap().to_owned(),
            device: held["device"]["DeviceName"].as_str().unwrap().to_owned(),
            cdi_ids: texts(&held["device"]["CDIDeviceIDs"]),
            share_id: None,
        })
        .collect()
}

/// Whether the spec has the same device as the Go driver's, with its kind and name. The rest of the
/// spec may differ.
pub(crate) fn has_channel_0(spec: &str, uid: &str) -> bool {
    let Ok(spec) = serde_json::from_str::<Value>(spec) else {
        return false;
    };
    let device = &spec["devices"][0];
    let node = &device["containerEdits"]["deviceNodes"][0];
    spec["kind"] == "k8s.compute-domain.nvidia.com/claim"
        && device["name"] == format!("{uid}-channel-0")
        && node["path"] == "/dev/nvidia-caps-imex-channels/channel0"
        && (&node["major"], node["minor"].as_u64().unwrap_or(0)) == (&235.into(), 0)
}

pub(crate) async fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

impl Node {
    /// The bytes of the checkpoint. Panics if the Go driver's reader rejects them.
    pub(crate) fn checkpoint(&self) -> Vec<u8> {
        let bytes = fs::read(self.data().join("checkpoint.json")).unwrap();
        Checkpoint::read(&bytes);
        bytes
    }

    /// The state of each record, read like the Go driver.
    pub(crate) fn states(&self) -> Vec<(String, String)> {
        let mut read = Checkpoint::read(&self.checkpoint());
        let records = read.records().iter();
        records
            .map(|(uid, record)| (uid.clone(), record.state.clone()))
            .collect()
    }

    /// Checks that the device is free: claim `a` is prepared and unprepared.
    pub(crate) async fn prepares_and_unprepares_another_claim(&self) {
        let devices = self.prepare(&claim("a")).await.unwrap();
        assert_eq!(devices[0].device, "channel-0");
        assert!(
            self.states()
                .contains(&("a".to_owned(), "PrepareCompleted".to_owned()))
        );
        self.unprepare(&claim("a")).await.unwrap();
        assert!(!self.states().iter().any(|(uid, _)| uid == "a"));
        assert_eq!(self.kept().spec_of("a"), None);
    }
}
