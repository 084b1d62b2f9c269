//! Random content, bytes and unknown members.

use std::sync::Arc;

use dra_checkpoint::{BootId, Checkpoint, ClaimRef, ClaimStatus, Refused, State, Store};
use durable_file::SimDir;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::sealed::{sealed, unsealed};
use crate::common::{Group, at, fixture, group, rewritten};

#[derive(Debug, Clone)]
struct Given {
    uid: String,
    name: String,
    status: String,
    /// Each unit stands for a group.
    state: State<()>,
}

fn given() -> impl Strategy<Value = Given> {
    let state = prop_oneof![
        Just(State::Started),
        (0..3_usize).prop_map(|groups| State::Completed(vec![(); groups])),
        Just(State::Aborted { at: Some(at(0)) }),
    ];
    let status = prop_oneof![
        Just("{}".to_owned()),
        ".*".prop_map(|name| json!({"reservedFor": [{"name": name}]}).to_string()),
        ".*".prop_map(|text| {
            let parameters = json!({"a": text, "n": 1.0});
            let opaque = json!({"driver": "d", "parameters": parameters});
            json!({"allocation": {"devices": {"config": [{"opaque": opaque}]}}}).to_string()
        }),
    ];
    (".{0,8}", ".*", status, state).prop_map(|(uid, name, status, state)| Given {
        uid,
        name,
        status,
        state,
    })
}

/// The file that a store writes for these claims.
fn file_of(claims: &[Given]) -> Vec<u8> {
    let dir = SimDir::new();
    let boot = BootId::new("boot").unwrap();
    let (store, _) = Store::<Group>::open(Arc::new(dir.clone()), boot).unwrap();
    for given in claims.iter().cloned() {
        let written = store.commit(move |claims| {
            let (uid, status) = (
                given.uid.clone(),
                ClaimStatus::from_json(&given.status).unwrap(),
            );
            let (name, namespace) = (given.name, String::new());
            claims.start(
                &ClaimRef {
                    uid: given.uid,
                    name,
                    namespace,
                },
                &status,
                at(0),
            )?;
            match given.state {
                State::Started => Ok(()),
                State::Aborted { .. } => claims.abort(&uid, at(0)),
                State::Completed(groups) => {
                    claims.complete(&uid, &status, vec![group(); groups.len()])
                }
            }
        });
        // Fails if a UID occurs twice.
        let _: Result<(), dra_checkpoint::CommitError<Refused>> = written;
    }
    rewritten(&dir)
}

fn records(checkpoint: &Checkpoint<Group>) -> Vec<String> {
    let records = checkpoint.claims();
    records
        .map(|(uid, record)| format!("{uid:?} {record:?}"))
        .collect()
}

/// The same V2 in another spelling, so that only its content can match.
fn respelled(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let state = r#"{"checkpointState":"Prepare"#;
    text.replace(state, r#"{"checkpointState":"\u0050repare"#)
        .into_bytes()
}

proptest! {
    #[test]
    fn written_records_are_read_back_unchanged(
        claims in proptest::collection::vec(given(), 1..6),
    ) {
        let bytes = file_of(&claims);
        let read = Checkpoint::<Group>::decode(&bytes).unwrap();
        prop_assert!(read.encode().unwrap() == bytes, "as text");
        let respelled = Checkpoint::<Group>::decode(&respelled(&bytes)).unwrap();
        prop_assert_eq!(records(&respelled), records(&read));
        prop_assert!(respelled.encode().unwrap() == bytes, "as content");
    }

    #[test]
    fn random_bytes_are_damage_and_never_panic(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            r#"[\[\]{}",:\\ 0-9a-z]{0,200}"#.prop_map(String::into_bytes),
            r#"\{"checksum":[0-9]{1,20},"v[12]":.{0,80}"#.prop_map(String::into_bytes),
        ],
    ) {
        prop_assert!(Checkpoint::<Group>::decode(&bytes).is_err());
    }

    #[test]
    fn the_saved_records_of_a_corrupted_file_can_be_written_and_read(
        name in proptest::sample::select(vec![
            "02-channel-completed.json", "06-unicode-html.json", "09-v1-only-25.3.x.json",
            "12-legacy-25.3.0-rc.2.json", "13-unknown-top-level-key.json",
        ]),
        harm in proptest::collection::vec((any::<Index>(), 0..8_usize, any::<[u8; 3]>(), 0..4_usize), 1..4),
    ) {
        let mut bytes = fixture(name);
        for (at, removed, added, count) in harm {
            let at = at.index(bytes.len());
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, added.into_iter().take(count));
        }
        let saved = match Checkpoint::<Group>::decode(&bytes) {
            Ok(read) => read,
            Err(damaged) => damaged.saved,
        };
        let again = Checkpoint::<Group>::decode(&saved.encode().unwrap()).unwrap();
        prop_assert_eq!(records(&again), records(&saved));
    }

    #[test]
    fn an_unknown_member_anywhere_survives(
        name in proptest::sample::select(vec![
            "01-empty.json", "02-channel-completed.json", "04-channel-aborted.json",
            "05-daemon-completed.json",
        ]),
        added in proptest::collection::vec((any::<Index>(), any::<Index>(), foreign()), 1..8),
        v1_added in proptest::collection::vec((any::<Index>(), any::<Index>(), foreign()), 0..3),
    ) {
        let mut file = unsealed(&fixture(name));
        inject(&mut file["v2"], &added, usize::MAX);
        // V1 has V2's values and unknown members of its own.
        if let Some(claims) = file["v1"].get("preparedClaims").and_then(Value::as_object).cloned() {
            for uid in claims.keys() {
                for member in ["status", "preparedDevices"] {
                    let value = file["v2"]["preparedClaims"][uid][member].clone();
                    file["v1"]["preparedClaims"][uid][member] = value;
                }
            }
        }
        inject(&mut file["v1"], &v1_added, 3);
        let text = sealed(&file.to_string());
        let read = Checkpoint::<Group>::decode(text.as_bytes()).unwrap();
        prop_assert_eq!(String::from_utf8(read.encode().unwrap()).unwrap(), text);
        let known = Checkpoint::<Group>::decode(&fixture(name)).unwrap();
        prop_assert_eq!(records(&read), records(&known));
    }
}

fn foreign() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "[^<>&\u{2028}\u{2029}]*".prop_map(Value::from),
        Just(json!({"v2": {"checksum": 3, "status": []}, "list": [1, "]}", {}]})),
    ]
}

/// Adds members to the objects of `root` down to this depth.
fn inject(root: &mut Value, added: &[(Index, Index, Value)], depth: usize) {
    for (n, (which, place, value)) in added.iter().enumerate() {
        let mut count = 0;
        visit(root, depth, &mut |_| count += 1);
        let (chosen, mut at) = (which.index(count), 0);
        visit(root, depth, &mut |object| {
            if at == chosen {
                object.shift_insert(
                    place.index(object.len() + 1),
                    format!("new{n}"),
                    value.clone(),
                );
            }
            at += 1;
        });
    }
}

/// Visits every object whose members are fields, except the map of claims and users'
/// parameters.
fn visit(value: &mut Value, depth: usize, seen: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, depth, seen)),
        Value::Object(object) => {
            for (key, member) in object.iter_mut() {
                match (key.as_str(), member) {
                    ("parameters", _) => {}
                    ("preparedClaims", Value::Object(claims)) => {
                        claims
                            .values_mut()
                            .for_each(|claim| visit(claim, depth - 1, seen));
                    }
                    (key, member) if !key.starts_with("new") => visit(member, depth, seen),
                    _ => {}
                }
            }
            seen(object);
        }
        _ => {}
    }
}
