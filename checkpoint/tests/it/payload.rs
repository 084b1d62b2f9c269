//! Payloads that cannot be read back: detected before a record is lost.

use std::error::Error;
use std::sync::Arc;

use dra_checkpoint::{
    Checkpoint, ClaimRecord, ClaimRef, ClaimStatus, Class, CommitError, Damage, Payload, Refused,
    Store, StoreError,
};
use durable_file::SimDir;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::common::{Group, at, boot, claim, fixture, rewritten};

/// A payload with typical mistakes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Careless {
    #[serde(skip_serializing_if = "String::is_empty")]
    device: String,
    share: f64,
}

impl Payload for Careless {}

fn open(dir: &SimDir) -> (Store<Careless>, Damage) {
    Store::open(Arc::new(dir.clone()), boot()).unwrap()
}

fn prepare(
    store: &Store<Careless>,
    uid: &'static str,
    device: &str,
    share: f64,
) -> Result<(), CommitError<Refused>> {
    let device = device.to_owned();
    store.commit(move |claims| {
        let status = ClaimStatus::default();
        claims.start(&claim(uid), &status, at(0))?;
        claims.complete(uid, &status, vec![Careless { device, share }])
    })
}

#[test]
fn a_payload_that_cannot_be_read_back_fails_its_commit_and_loses_no_claim() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    prepare(&store, "a", "gpu-0", 0.5).unwrap();
    let before = rewritten(&dir);
    for (device, share, member) in [
        ("", 0.5, "missing field `device`"),
        ("gpu-1", f64::NAN, "invalid type: null, expected f64"),
    ] {
        let failed = prepare(&store, "b", device, share).unwrap_err();
        assert_eq!(failed.code(), "checkpoint-not-readable-back");
        assert_eq!(failed.class(), Class::Permanent);
        assert!(failed.hint().contains("default"), "{}", failed.hint());
        let CommitError::Store(StoreError::Encode(error)) = failed else {
            panic!("{failed}")
        };
        let message = error.to_string();
        assert!(
            message.contains("claim b: preparedDevices: ") && message.contains(member),
            "{message}"
        );
        assert!(error.source().is_none());
        assert_eq!(rewritten(&dir), before);
        assert!(store.view().get("b").is_none());
    }
    prepare(&store, "b", "gpu-1", 1.0).unwrap();
    let (store, damage) = open(&dir);
    assert_eq!(damage, Damage::None);
    assert_eq!(store.view().records().unwrap().count(), 2);
}

#[test]
fn floats_are_written_like_in_go() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    for (uid, share) in [("a", 1.0), ("b", 1e21), ("c", 1e-7), ("d", -0.0)] {
        prepare(&store, uid, "gpu-0", share).unwrap();
    }
    let text = String::from_utf8(rewritten(&dir)).unwrap();
    for share in ["1", "1e+21", "1e-7", "-0"] {
        assert!(text.contains(&format!("\"share\":{share}}}")), "{text}");
    }
    let (store, damage) = open(&dir);
    assert_eq!(damage, Damage::None);
    let view = store.view();
    assert_eq!(
        view.get("b").unwrap().devices()[0].share.to_bits(),
        1e21_f64.to_bits()
    );
}

#[test]
fn the_default_from_legacy_reads_the_drivers_own_format() {
    let read = Careless::from_legacy(r#"{"device":"gpu-0","share":1}"#).unwrap();
    assert_eq!(read.device, "gpu-0");
    // A field in another case is an error, since Go would accept it.
    assert!(Careless::from_legacy(r#"{"Device":"gpu-0","device":"gpu-1","share":1}"#).is_err());
}

#[test]
fn recovery_needed_converts_to_refused() {
    let (store, _) = open(&SimDir::new());
    let name: ClaimRef = claim("a");
    let all = store.commit(move |claims| {
        let others = claims
            .records()?
            .filter(|(uid, _)| *uid != name.uid)
            .count();
        Ok::<_, Refused>(others)
    });
    assert_eq!(all.unwrap(), 0);
}

/// The file after reformatting by an editor. Its checksums still match, since Go formats it back.
fn indented(file: &[u8]) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_slice(file).unwrap();
    serde_json::to_vec_pretty(&value).unwrap()
}

#[test]
fn a_reader_that_does_not_know_the_payload_keeps_its_bytes_and_the_checksums() {
    for name in [
        "02-channel-completed.json",
        "05-daemon-completed.json",
        "09-v1-only-25.3.x.json",
        "10-v2-no-bootid-25.8-to-25.12.json",
    ] {
        let file = fixture(name);
        let read = Checkpoint::<Box<RawValue>>::decode(&file).unwrap();
        let known = Checkpoint::<Group>::decode(&file).unwrap();
        assert_eq!(read.encode().unwrap(), known.encode().unwrap(), "{name}");
        let read = Checkpoint::<Box<RawValue>>::decode(&indented(&file)).unwrap();
        assert_eq!(read.encode().unwrap(), known.encode().unwrap(), "{name}");
        let devices = |(_, record): (_, &ClaimRecord<Box<RawValue>>)| record.devices().len();
        assert!(read.claims().map(devices).sum::<usize>() > 0, "{name}");
    }
}

#[test]
fn a_rewritten_record_keeps_the_payloads_text() {
    let file = fixture("02-channel-completed.json");
    let read = Checkpoint::<Box<RawValue>>::decode(&file).unwrap();
    let (uid, record) = read.claims().next().unwrap();
    let [device] = record.devices() else {
        panic!("one device")
    };
    let (id, status) = (claim("copy"), record.status.clone());
    let device = device.clone();
    let dir = SimDir::new();
    let (store, _) = Store::<Box<RawValue>>::open(Arc::new(dir.clone()), boot()).unwrap();
    let text = format!(r#""preparedDevices":[{}]"#, device.get());
    store
        .commit(move |claims| {
            claims.start(&id, &status, at(0))?;
            claims.complete("copy", &status, vec![device])
        })
        .map_err(|error: CommitError<Refused>| error)
        .unwrap();
    let written = rewritten(&dir);
    assert!(String::from_utf8(written).unwrap().contains(&text), "{uid}");
    assert!(String::from_utf8(file).unwrap().contains(&text), "{uid}");
}
