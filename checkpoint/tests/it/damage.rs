//! Damaged checkpoints: which records survive, which file is kept, and which calls are refused.

mod detail;
mod place;

use dra_checkpoint::{
    Checkpoint, Damage, DamageReason, Damaged, FilePart, Mismatch, RecoveryNeeded, Refused, State,
    Store, Survivors,
};
use durable_file::{Dir, SimDir};

use crate::common::{Group, at, boot, claim, fixture, group, open, status};

const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
const GOOD: &str = "02-channel-completed.json";

fn dir_holding(bytes: &[u8]) -> SimDir {
    let dir = SimDir::new();
    dir.replace("checkpoint.json", bytes, 0o600).unwrap();
    dir
}

/// The fixture with the first or last occurrence of a text replaced; the last one is in V2.
fn spoiled(from: &str, to: &str, last: bool) -> Vec<u8> {
    let text = String::from_utf8(fixture(GOOD)).unwrap();
    let at = if last {
        text.rfind(from)
    } else {
        text.find(from)
    }
    .unwrap();
    [&text[..at], to, &text[at + from.len()..]]
        .concat()
        .into_bytes()
}

fn damaged(reason: DamageReason) -> Damage {
    let set_aside_as = format!("checkpoint.json.damaged-{}", reason.code());
    Damage::Damaged {
        reason,
        set_aside_as,
    }
}

fn rebuild(store: &Store<Group>) {
    store
        .commit(|claims| {
            claims.mark_rebuilt();
            Ok::<_, Refused>(())
        })
        .unwrap();
}

// req: CKPT-10
#[test]
fn each_kind_of_damage_is_reported_and_recovered_as_far_as_possible() {
    use DamageReason::{BothChecksums, Empty, Layout, NotJson, V1Checksum, V2Checksum};
    let both = {
        let v1 = String::from_utf8(spoiled("node-a", "node-b", false)).unwrap();
        let at = v1.rfind("node-a").unwrap();
        [&v1[..at], "node-c", &v1[at + 6..]].concat().into_bytes()
    };
    for (bytes, reason, survivors) in [
        (Vec::new(), Empty, Survivors::None),
        (b"\n".to_vec(), Empty, Survivors::None),
        (b"[]".to_vec(), Layout, Survivors::None),
        (b"\0\0\0\0".to_vec(), NotJson, Survivors::None),
        (fixture(GOOD)[..1000].to_vec(), NotJson, Survivors::None),
        (fixture(GOOD)[..2000].to_vec(), NotJson, Survivors::Some),
        (
            spoiled("\"v1\":{", "\"v1\":{{", false),
            NotJson,
            Survivors::All,
        ),
        (spoiled("}}}", "}}]", false), NotJson, Survivors::All),
        (spoiled("\"", "'", false), NotJson, Survivors::All),
        (
            [fixture(GOOD), b"}".to_vec()].concat(),
            NotJson,
            Survivors::All,
        ),
        (spoiled("\"v1\"", "\"w1\"", false), Layout, Survivors::All),
        (
            spoiled("node-a", "node-b", false),
            V1Checksum,
            Survivors::All,
        ),
        (
            spoiled("node-a", "node-b", true),
            V2Checksum,
            Survivors::Some,
        ),
        (spoiled("\"v2\"", "\"v3\"", true), Layout, Survivors::Some),
        (both, BothChecksums, Survivors::None),
    ] {
        let dir = dir_holding(&bytes);
        let (store, damage) = open(&dir);
        assert_eq!(decode(&bytes).survivors, survivors);
        let expected = damaged(reason);
        assert_eq!(damage, expected);
        assert_eq!(store.view().damage(), &expected);
        assert_eq!(
            store.view().get(UID).is_some(),
            survivors != Survivors::None
        );
        assert_eq!(store.view().records().err(), Some(RecoveryNeeded::Damaged));

        let Damage::Damaged { set_aside_as, .. } = damage else {
            panic!("damaged")
        };
        assert_eq!(
            dir.read(&set_aside_as).unwrap().unwrap(),
            bytes,
            "the file is kept unchanged"
        );
        assert_eq!(dir.read("checkpoint.json").unwrap(), None);
    }
}

// req: CKPT-12
#[test]
fn a_newer_drivers_claim_state_is_damage() {
    // An unknown state with a valid checksum.
    let dir = dir_holding(&fixture("03-channel-started.json"));
    let bytes = dir.read("checkpoint.json").unwrap().unwrap();
    let text = String::from_utf8(bytes)
        .unwrap()
        .replace("PrepareStarted", "PreparePostponed");
    let text = text.replace("262455068", &checksum_of_v2(&text).to_string());
    let (_, damage) = open(&dir_holding(text.as_bytes()));
    assert_eq!(damage, damaged(DamageReason::UnknownState));
}

/// The checksum by its definition, over the rendered text.
fn checksum_of_v2(text: &str) -> u32 {
    let start = text.find(r#""v2":"#).unwrap() + 5;
    let v2 = text[start..text.len() - 1].replace("262455068", "0");
    let bytes: Vec<String> = v2.bytes().map(|b| b.to_string()).collect();
    let rendered = format!("([]uint8)[{}]", bytes.join(" "));
    rendered.bytes().fold(0x811c_9dc5, |hash: u32, c| {
        (hash ^ u32::from(c)).wrapping_mul(0x0100_0193)
    })
}

fn decode(bytes: &[u8]) -> Damaged<Group> {
    Checkpoint::decode(bytes).unwrap_err()
}

fn names(saved: &Checkpoint<Group>) -> Vec<(&str, &str)> {
    let records = saved.claims();
    records.map(|(uid, r)| (uid, r.name.as_str())).collect()
}

#[test]
fn a_mismatch_has_the_stored_and_the_computed_checksum() {
    let stored_and_computed = |text: &str, last| {
        let mismatches = decode(&spoiled("node-a", text, last)).mismatches;
        let [mismatch] = mismatches[..] else {
            panic!("one part is bad: {mismatches:?}")
        };
        mismatch
    };
    let v1 = stored_and_computed("node-b", false);
    assert_eq!((v1.part, v1.stored), (FilePart::V1, Some(1_190_510_907)));
    let v2 = stored_and_computed("node-b", true);
    assert_eq!((v2.part, v2.stored), (FilePart::V2, Some(392_506_270)));
    let Mismatch { computed, .. } = v2;
    assert_eq!(
        v2.to_string(),
        format!("V2 checksum is 392506270, but the checksum of the content is {computed}")
    );
    // With the computed checksum the file is valid.
    let text = String::from_utf8(spoiled("node-a", "node-b", true)).unwrap();
    let text = text.replace("392506270", &computed.to_string());
    assert!(Checkpoint::<Group>::decode(text.as_bytes()).is_ok());
}

#[test]
fn names_and_boot_of_an_intact_v2_survive_any_damage_to_v1() {
    let good = fixture(GOOD);
    let v2 = good.windows(6).position(|w| w == b",\"v2\":").unwrap();
    for at in 0..v2 {
        for byte in [b'"', b'{', b'}', b'\\', b'x', b'\n', 0, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let saved = match Checkpoint::<Group>::decode(&bytes) {
                Ok(read) => read,
                Err(damaged) => {
                    assert_eq!(damaged.survivors, Survivors::All, "byte {at}: {byte}");
                    damaged.saved
                }
            };
            assert_eq!(
                names(&saved),
                [(UID, "worker-0-compute-domain-channel-abcde")]
            );
            assert!(saved.boot_id().is_some());
            assert_eq!(saved.encode().unwrap(), good);
        }
    }
}

#[test]
fn completed_claims_of_an_intact_v1_survive_any_cut_of_v2() {
    let good = fixture(GOOD);
    let v2 = good.windows(6).position(|w| w == b",\"v2\":").unwrap();
    // Except the file's last bracket, which is not part of V2.
    for length in v2..good.len() - 1 {
        let damaged = decode(&good[..length]);
        assert_eq!(damaged.survivors, Survivors::Some, "{length}");
        assert_eq!(names(&damaged.saved), [(UID, "")], "{length}");
    }
}

#[test]
fn text_in_a_claim_that_looks_like_v2_is_not_read_as_v2() {
    let mine = r#"{"a":1,"v2":{"checksum":3135963545,"nodeBootID":"6f1c1f0e-2c38-4c4a-9f5b-0d3a5a1b7c11"}}"#;
    let forged = spoiled(
        r#"{"allocationMode""#,
        &format!(r#"{{"mine":{mine},"allocationMode""#),
        false,
    );
    let v2 = forged.windows(6).rposition(|w| w == b",\"v2\":").unwrap();
    for at in 0..v2 {
        let mut bytes = forged.clone();
        bytes[at] = b']';
        assert_eq!(decode(&bytes).saved.claims().count(), 1, "byte {at}");
    }
}

// req: CKPT-12
#[test]
fn one_unreadable_claim_does_not_lose_the_others() {
    let mut file: serde_json::Value = serde_json::from_slice(&fixture(GOOD)).unwrap();
    let mut started: serde_json::Value =
        serde_json::from_slice(&fixture("03-channel-started.json")).unwrap();
    let uid = "22222222-aaaa-4bbb-8ccc-000000000002";
    let claim = started["v2"]["preparedClaims"][uid].take();
    file["v2"]["preparedClaims"][uid] = claim.clone();
    let mut postponed = claim;
    postponed["checkpointState"] = "PreparePostponed".into();
    file["v2"]["preparedClaims"]["3"] = postponed;
    let computed = decode(file.to_string().as_bytes()).mismatches[0].computed;
    file["v2"]["checksum"] = computed.into();

    // Go verifies the text that it would write, so indentation does not matter.
    for text in [file.to_string(), format!("{file:#}")] {
        let Damaged {
            reason,
            saved,
            survivors,
            ..
        } = decode(text.as_bytes());
        assert_eq!(
            (reason, survivors),
            (DamageReason::UnknownState, Survivors::Some)
        );
        let states: Vec<_> = saved.claims().map(|(_, r)| r.state.name()).collect();
        assert_eq!(states, ["PrepareCompleted", "PrepareStarted"]);
        assert!(saved.claims().all(|(_, record)| !record.name.is_empty()));
        assert!(
            saved
                .claims()
                .any(|(_, record)| record.state == State::Started)
        );
        assert!(saved.boot_id().is_some());
    }
}

#[test]
fn invalid_content_with_a_valid_checksum_is_damage() {
    let text = String::from_utf8(fixture("03-channel-started.json")).unwrap();
    for (member, reason) in [
        (r#""preparedDevices":[1}"#, DamageReason::NotJson),
        (r#""abortedAt":nil"#, DamageReason::NotJson),
        (r#""new":[}"#, DamageReason::NotJson),
        (r#""\x":1"#, DamageReason::NotJson),
        (r#""\ud800":1"#, DamageReason::Layout),
        (r#""new":1,"name":"twice""#, DamageReason::Layout),
    ] {
        let spoiled = text.replace(r#""status":{"#, &format!(r#"{member},"status":{{"#));
        let fitting = spoiled.replace("262455068", &checksum_of_v2(&spoiled).to_string());
        let damaged = decode(fitting.as_bytes());
        assert_eq!(damaged.reason, reason, "{member}");
        assert!(damaged.mismatches.is_empty(), "{member}: {damaged}");
        assert_eq!(damaged.survivors, Survivors::Some, "{member}");
        assert_eq!(damaged.saved.claims().count(), 0, "{member}");
    }
}

#[test]
fn a_huge_invalid_file_is_refused_quickly() {
    const SIZE: usize = 4_000_000;
    for (start, piece) in [
        ("", "["),
        ("", "{\"\":"),
        ("", "{\"v2\":"),
        ("{\"v1\":", ",\"v2\":{"),
        ("[", ",\"v2\":{\"a\":1}"),
        ("{\"checksum\":0,\"v1\":", "\""),
        ("{", "\"a\":0,"),
        ("{\"v2\":{", "\"checksum\":0,"),
        ("{\"v2\":{\"preparedClaims\":{", "\"a\":{\"\\u0061\":1},"),
        ("\\", "\\"),
    ] {
        let text = [start, &piece.repeat(SIZE / piece.len())].concat();
        let damaged = decode(text.as_bytes());
        assert_eq!(damaged.survivors, Survivors::None, "{start}{piece}");
        assert_eq!(damaged.saved.claims().count(), 0);
    }
}

// req: CKPT-11
#[test]
fn a_damaged_store_refuses_starts_but_allows_removals() {
    let dir = dir_holding(&spoiled("node-a", "node-b", true));
    let (store, _) = open(&dir);
    let refused = store.commit(|claims| claims.start(&claim("b"), &status("p"), at(0)));
    assert!(refused.unwrap_err().to_string().contains("not yet rebuilt"));
    store.commit(|claims| claims.remove(UID)).unwrap();
    // The removed record does not come back from the damaged file.
    let (reopened, damage) = open(&dir);
    assert!(reopened.view().get(UID).is_none());
    assert_eq!(damage, damaged(DamageReason::V2Checksum));
}

#[test]
fn damage_is_reported_until_the_store_is_rebuilt_also_to_later_processes() {
    let dir = dir_holding(b"{");
    let kept = damaged(DamageReason::NotJson);
    let (_, damage) = open(&dir);
    assert_eq!(damage, kept);
    let (store, damage) = open(&dir);
    assert_eq!(
        damage, kept,
        "the first process died before it could rebuild"
    );

    store
        .commit(|claims| claims.restore(&claim("a"), status("p"), vec![group()]))
        .unwrap();
    rebuild(&store);
    assert_eq!(store.view().records().unwrap().count(), 1);

    let (later, damage) = open(&dir);
    assert_eq!(damage, Damage::None);
    assert!(later.view().get("a").unwrap().is_completed());
    let kept = dir.read("checkpoint.json.settled-not-json").unwrap();
    assert_eq!(
        kept.as_deref(),
        Some(&b"{"[..]),
        "the damaged file is still there"
    );
}

#[test]
fn a_survivor_is_not_overwritten_by_a_restore() {
    let (store, _) = open(&dir_holding(&spoiled("node-a", "node-b", true)));
    let mut known = store.view().get(UID).unwrap().clone();
    assert_eq!((&*known.name, &*known.namespace), ("", ""), "V1 has none");
    for _ in 0..2 {
        store
            .commit(|claims| claims.restore(&claim(UID), status("p"), vec![]))
            .unwrap();
        // Only the names are taken from the caller.
        known.name = claim(UID).name;
        known.namespace = claim(UID).namespace;
        assert_eq!(store.view().get(UID).unwrap(), &known);
    }
    let other = dra_checkpoint::ClaimRef {
        name: "other".into(),
        ..claim(UID)
    };
    store
        .commit(move |claims| claims.restore(&other, status("p"), vec![]))
        .unwrap();
    assert_eq!(store.view().get(UID).unwrap(), &known);
}

#[test]
fn an_undamaged_store_refuses_a_restore() {
    let (store, _) = open(&SimDir::new());
    let refused = store.commit(|claims| claims.restore(&claim("a"), status("p"), vec![]));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("only if the checkpoint is damaged, and this one is not")
    );
}

#[test]
fn damage_under_a_running_store_loses_no_record_in_memory() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    dir.replace("checkpoint.json", b"scribble", 0o600).unwrap();

    let refused = store.commit(|claims| claims.start(&claim("b"), &status("p"), at(0)));
    assert!(refused.unwrap_err().to_string().contains("damaged"));
    assert!(store.view().get("a").is_some());
    rebuild(&store);
    let (reopened, damage) = open(&dir);
    assert_eq!(damage, Damage::None);
    assert!(reopened.view().get("a").is_some());
}

#[test]
fn a_deleted_file_is_written_again() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    dir.remove("checkpoint.json").unwrap();
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    assert!(open(&dir).0.view().get("a").is_some());
}

// req: CKPT-10
#[test]
fn a_second_bad_file_does_not_replace_the_first() {
    let dir = dir_holding(b"{");
    drop(open(&dir));
    dir.replace("checkpoint.json", b"{{", 0o600).unwrap();
    drop(open(&dir));
    let kept = |name: &str| dir.read(name).unwrap().unwrap();
    assert_eq!(kept("checkpoint.json.damaged-not-json"), b"{");
    assert_eq!(kept("checkpoint.json.damaged-not-json-2"), b"{{");
}

#[test]
fn a_directory_in_the_files_place_is_set_aside() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join("checkpoint.json")).unwrap();
    let dir = std::sync::Arc::new(durable_file::OsDir::open(scratch.path()).unwrap());
    let (store, damage) = Store::<Group>::open(dir, boot()).unwrap();
    assert_eq!(damage, damaged(DamageReason::NotAFile));
    rebuild(&store);
    assert!(store.view().records().is_ok());
}
