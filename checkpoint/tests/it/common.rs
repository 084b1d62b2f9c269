//! A payload with the Go driver's bytes, and helpers shared by the tests.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use dra_checkpoint::{BootId, ClaimRef, ClaimStatus, Damage, Payload, Store};
use durable_file::{Dir, SimDir};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One element of `preparedDevices` as the ComputeDomain driver has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) devices: Vec<Prepared>,
    pub(crate) config_state: ConfigState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prepared {
    pub(crate) channel: Option<Part>,
    pub(crate) daemon: Option<Part>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) info: Info,
    pub(crate) device: Option<Device>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Info {
    pub(crate) id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_field_names, reason = "the fields are Go's")]
pub(crate) struct Device {
    #[serde(alias = "request_names")]
    pub(crate) requests: Option<Vec<String>>,
    #[serde(alias = "pool_name")]
    pub(crate) pool_name: String,
    #[serde(alias = "device_name")]
    pub(crate) device_name: String,
    #[serde(rename = "CDIDeviceIDs", alias = "cdi_device_ids")]
    pub(crate) cdi_device_ids: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ConfigState {
    pub(crate) r#type: String,
    pub(crate) compute_domain: String,
}

impl Payload for Group {}

/// A [`Group`] of a driver whose aborted records are in the second file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TwoFiles(Group);

impl Payload for TwoFiles {
    const HAS_ABORTED: bool = false;
}

/// The payloads of the tests for one file and for two.
pub(crate) trait TestPayload: Payload + Clone + Debug + PartialEq {
    fn any() -> Self;
}

impl TestPayload for Group {
    fn any() -> Self {
        group()
    }
}

impl TestPayload for TwoFiles {
    fn any() -> Self {
        Self(group())
    }
}

pub(crate) const BOOT: &str = "6f1c1f0e-2c38-4c4a-9f5b-0d3a5a1b7c11";

pub(crate) fn boot() -> BootId {
    BootId::new(BOOT).unwrap()
}

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path).unwrap()
}

pub(crate) fn group() -> Group {
    Group {
        devices: vec![Prepared {
            channel: Some(Part {
                info: Info { id: 0 },
                device: Some(Device {
                    requests: Some(vec!["channel".into()]),
                    pool_name: "node-a".into(),
                    device_name: "channel-0".into(),
                    cdi_device_ids: Some(vec![]),
                }),
            }),
            daemon: None,
        }],
        config_state: ConfigState {
            r#type: "channel".into(),
            compute_domain: "cd".into(),
        },
    }
}

pub(crate) fn claim(uid: &str) -> ClaimRef {
    ClaimRef {
        uid: uid.into(),
        name: format!("claim-{uid}"),
        namespace: "default".into(),
    }
}

/// The status of a claim that is reserved for `pod`.
pub(crate) fn status(pod: &str) -> ClaimStatus {
    let text = format!(
        r#"{{"allocation":{{"devices":{{"results":[{{"request":"channel","driver":"compute-domain.nvidia.com","pool":"node-a","device":"channel-0"}}]}}}},"reservedFor":[{{"resource":"pods","name":"{pod}","uid":"{pod}-uid"}}]}}"#
    );
    ClaimStatus::from_json(&text).unwrap()
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(crate) fn open(dir: &SimDir) -> (Store<Group>, Damage) {
    open_as(dir)
}

pub(crate) fn open_as<P: Payload>(dir: &SimDir) -> (Store<P>, Damage) {
    Store::open(Arc::new(dir.clone()), boot()).unwrap()
}

/// A directory whose checkpoint is this fixture.
pub(crate) fn dir_with(fixture_name: &str) -> SimDir {
    let dir = SimDir::new();
    dir.replace("checkpoint.json", &fixture(fixture_name), 0o600)
        .unwrap();
    dir
}

/// The file that the store has written.
pub(crate) fn rewritten(dir: &SimDir) -> Vec<u8> {
    dir.read("checkpoint.json").unwrap().unwrap()
}
