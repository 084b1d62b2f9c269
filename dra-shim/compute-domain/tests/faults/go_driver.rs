//! The Go driver's files, lock, sockets and slice. Fixtures have files that it wrote; its reads and
//! writes are reimplemented here, without this project's code.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::GIVE_UP;
use crate::api::NODE;
use crate::ground::Ground;
use crate::kept::spec_name;

const DRIVER: &str = "compute-domain.nvidia.com";

/// The boot of its records.
pub(crate) const BOOT: &str = "6f1c1f0e-2c38-4c4a-9f5b-0d3a5a1b7c11";

/// Its checkpoint, with fields in the order of its types. Decoding and encoding gives the bytes of
/// its checksums; the Go driver checks them the same way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    checksum: u32,
    v1: V1,
    #[serde(skip_serializing_if = "Option::is_none")]
    v2: Option<V2>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct V1 {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    prepared_claims: BTreeMap<String, V1Claim>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct V1Claim {
    status: Box<RawValue>,
    prepared_devices: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct V2 {
    checksum: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    prepared_claims: BTreeMap<String, Record>,
    #[serde(rename = "nodeBootID", skip_serializing_if = "String::is_empty")]
    boot: String,
}

/// The record of a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    #[serde(rename = "checkpointState")]
    pub(crate) state: String,
    pub(crate) status: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prepared_devices: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aborted_at: Option<String>,
}

// === impl Checkpoint ===

impl Checkpoint {
    /// Reads a checkpoint. Like the Go driver, it rejects checksums that differ from its own encoding's.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let read: Self = serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {text}"));
        let (v1, v2) = read.checksums();
        assert_eq!(read.checksum, v1, "V1: {text}");
        assert_eq!(read.v2.as_ref().map(|it| it.checksum), v2, "V2: {text}");
        read
    }

    /// The records of the version that the Go driver uses.
    pub(crate) fn records(&mut self) -> &mut BTreeMap<String, Record> {
        &mut self.v2.get_or_insert_default().prepared_claims
    }

    /// The claims, also from a file of 25.3.x, whose records have no names.
    pub(crate) fn claims(&self) -> Vec<(String, Record)> {
        let Some(v2) = &self.v2 else {
            let claims = self.v1.prepared_claims.iter();
            let nameless = |(uid, claim): (&String, &V1Claim)| {
                let record = Record {
                    state: "PrepareCompleted".to_owned(),
                    status: claim.status.clone(),
                    prepared_devices: claim.prepared_devices.clone(),
                    name: format!("named-{uid}"),
                    namespace: "ns".to_owned(),
                    aborted_at: None,
                };
                (uid.clone(), record)
            };
            return claims.map(nameless).collect();
        };
        let claims = v2.prepared_claims.iter();
        claims
            .map(|(uid, record)| (uid.clone(), record.clone()))
            .collect()
    }

    /// The boot of the records.
    pub(crate) fn boot(&self) -> &str {
        self.v2.as_ref().map_or("", |v2| &v2.boot)
    }

    pub(crate) fn set_boot(&mut self, boot: &str) {
        boot.clone_into(&mut self.v2.get_or_insert_default().boot);
    }

    /// Encodes the checkpoint like the Go driver.
    pub(crate) fn write(mut self) -> String {
        let completed = |(uid, record): (&String, &Record)| {
            let claim = V1Claim {
                status: record.status.clone(),
                prepared_devices: record.prepared_devices.clone(),
            };
            (record.state == "PrepareCompleted").then(|| (uid.clone(), claim))
        };
        let claims = self.records().iter().filter_map(completed).collect();
        self.v1.prepared_claims = claims;
        let (v1, v2) = self.checksums();
        self.checksum = v1;
        self.v2.get_or_insert_default().checksum = v2.unwrap();
        encode(&self)
    }

    /// The checksums of V1 and V2.
    fn checksums(&self) -> (u32, Option<u32>) {
        let mut v1 = json!({"checksum": 0}).to_string();
        v1.pop();
        let v1 = format!(r#"{v1},"v1":{}}}"#, encode(&self.v1));
        let v2 = self.v2.as_ref().map(|v2| {
            let text = encode(v2);
            let own = format!(r#""checksum":{}"#, v2.checksum);
            checksum(&text.replacen(&own, r#""checksum":0"#, 1))
        });
        (checksum(&v1), v2)
    }
}

/// JSON in Go's formatting.
fn encode(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).unwrap();
    for special in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        let escape = format!("\\u{:04x}", u32::from(special));
        text = text.replace(special, &escape);
    }
    text
}

/// FNV-1a, 32 bits, over Go's printed form of the bytes.
fn checksum(text: &str) -> u32 {
    let bytes: Vec<String> = text.bytes().map(|b| b.to_string()).collect();
    let printed = format!("([]uint8)[{}]", bytes.join(" "));
    printed.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// A checkpoint written by the Go driver, from the fixtures of the crates that read them.
pub(crate) fn checkpoint(name: &str) -> Vec<u8> {
    let path = format!("../../checkpoint/tests/fixtures/{name}.json");
    fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The spec of a claim with channel 0, with the major of the tests' driver.
pub(crate) fn channel_spec(uid: &str) -> String {
    const OF: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
    let path = format!("../../cdi/tests/fixtures/{}", spec_name(OF));
    fs::read_to_string(path).unwrap().replace(OF, uid)
}

/// The spec of a daemon's claim.
pub(crate) fn daemon_spec(uid: &str) -> String {
    format!(
        "---
cdiVersion: 0.5.0
kind: k8s.compute-domain.nvidia.com/claim
devices:
    - name: {uid}-daemon-0
      containerEdits:
        env:
            - CLIQUE_ID=clusteruuid.1
"
    )
}

/// Its slice of a node with channel 0, as stored by the API server.
pub(crate) fn slice(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {
            "name": name, "generateName": format!("00000-{DRIVER}-{NODE}-"),
            "uid": "slice-uid", "resourceVersion": "1", "generation": 1,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": NODE,
                "uid": "node-uid", "controller": true}],
        },
        "spec": {
            "driver": DRIVER, "nodeName": NODE,
            "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "channel-0",
                "attributes": {"id": {"int": 0}, "type": {"string": "channel"}}}],
        },
    })
}

// === impl Ground ===

impl Ground {
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("plugins").join(DRIVER)
    }

    pub(crate) fn cdi(&self) -> PathBuf {
        self.dir.path().join("cdi")
    }

    /// Leaves directory, checkpoint and lock.
    pub(crate) fn leave_checkpoint(&self, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.data()).unwrap();
        fs::set_permissions(self.data(), Permissions::from_mode(0o750)).unwrap();
        File::create(self.data().join("pu.lock")).unwrap();
        put_private(&self.data().join("checkpoint.json"), bytes.as_ref());
    }

    pub(crate) fn leave_spec(&self, uid: &str, spec: &str) {
        fs::create_dir_all(self.cdi()).unwrap();
        put_private(&self.cdi().join(spec_name(uid)), spec.as_bytes());
    }

    /// Adds the claim of a record to the API server.
    pub(crate) fn leave_claim(&self, uid: &str, record: &Record) {
        let status: Value = serde_json::from_str(record.status.get()).unwrap();
        self.api.put(
            "resourceclaims",
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"namespace": record.namespace, "name": record.name, "uid": uid},
                "status": status,
            }),
        );
    }

    /// Listens on the sockets of its process.
    pub(crate) fn leave_sockets(&self) -> [UnixListener; 2] {
        let registry = self.dir.path().join("plugins_registry");
        fs::create_dir_all(&registry).unwrap();
        fs::create_dir_all(self.data()).unwrap();
        [
            registry.join(format!("{DRIVER}-reg.sock")),
            self.data().join("dra.sock"),
        ]
        .map(|path| UnixListener::bind(path).unwrap())
    }
}

fn put_private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Takes its lock, until the file is closed. Like the Go driver, it polls instead of blocking.
pub(crate) fn lock(data: &Path) -> File {
    let began = Instant::now();
    loop {
        let path = data.join("pu.lock");
        let options = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        let file = options.unwrap();
        if file.try_lock().is_ok() {
            return file;
        }
        assert!(began.elapsed() < GIVE_UP, "the lock is never free");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes the spec of a claim.
pub(crate) fn write_spec(path: &Path, spec: &str) {
    let temporary = path.with_extension(format!("yaml.{:x}", fastrand::u64(..)));
    put_private(&temporary, spec.as_bytes());
    fs::rename(temporary, path).unwrap();
}

/// Makes one change like the Go driver: under the lock, with a renamed file, without a sync of the
/// directory.
pub(crate) fn change(data: &Path, change: impl FnOnce(&mut BTreeMap<String, Record>)) {
    let path = data.join("checkpoint.json");
    let mut checkpoint = Checkpoint::read(&fs::read(&path).unwrap());
    change(checkpoint.records());
    let temporary = data.join(format!(".{:x}", fastrand::u64(..)));
    put_private(&temporary, checkpoint.write().as_bytes());
    File::open(&temporary).unwrap().sync_all().unwrap();
    fs::rename(temporary, path).unwrap();
}
