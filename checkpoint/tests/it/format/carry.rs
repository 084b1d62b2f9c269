//! Unknown fields of a newer writer stay in place until they may be wrong.

use dra_checkpoint::{Checkpoint, Refused, Store};
use durable_file::{Dir, SimDir};

use super::sealed::{checksum, sealed, unsealed};
use crate::common::{Group, at, fixture, open, rewritten};

const COMPLETED: &str = "02-channel-completed.json";
const STARTED: &str = "03-channel-started.json";
const STARTED_UID: &str = "22222222-aaaa-4bbb-8ccc-000000000002";

fn decode(bytes: &[u8]) -> Checkpoint<Group> {
    Checkpoint::decode(bytes).unwrap()
}

fn again(text: &str) -> String {
    String::from_utf8(decode(text.as_bytes()).encode().unwrap()).unwrap()
}

/// A store with this file.
fn store_of(text: &str) -> (SimDir, Store<Group>) {
    let dir = SimDir::new();
    dir.replace("checkpoint.json", text.as_bytes(), 0o600)
        .unwrap();
    let (store, _) = open(&dir);
    (dir, store)
}

fn file(dir: &SimDir) -> String {
    String::from_utf8(rewritten(dir)).unwrap()
}

/// A completed and a started claim, with an unknown member in every possible place.
#[expect(clippy::indexing_slicing, reason = "a test helper")]
fn of_a_newer_writer() -> String {
    let mut two = unsealed(&fixture(COMPLETED));
    let started = unsealed(&fixture(STARTED));
    two["v2"]["preparedClaims"][STARTED_UID] = started["v2"]["preparedClaims"][STARTED_UID].clone();
    let text = two.to_string();
    let text = text.replace(r#""status":{"#, r#""status":{"aNew":[1.0,{"b":null}],"#);
    let text = text.replace(r#""PoolName""#, r#""New":{},"PoolName""#);
    let text = text.replace(r#""preparedDevices""#, r#""before":1,"preparedDevices""#);
    let text = text.replace(r#","name":"worker"#, r#","extra":"é","name":"worker"#);
    let text = text.replace(r#","nodeBootID""#, r#","epoch":7,"nodeBootID""#);
    let text = text.replacen(r#""v1":{"#, r#""v1":{"old":true,"#, 1);
    sealed(&text.replacen(r#","v2""#, r#","between":{"x":[]},"v2""#, 1))
}

#[test]
fn an_unknown_key_beside_the_parts_stays_in_place() {
    let bytes = fixture("13-unknown-top-level-key.json");
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert_eq!(again(&text), text);
    let (before, extension) = text.split_at(text.find(r#","x-extension""#).unwrap());
    let moved = format!("{{{},{}", &extension[1..extension.len() - 1], &before[1..]) + "}";
    assert_eq!(again(&moved), moved);
}

// req: CKPT-4
#[test]
fn a_newer_writers_file_is_written_again_byte_for_byte() {
    let newer = of_a_newer_writer();
    assert_eq!(newer.matches("aNew").count(), 3);
    assert_eq!(again(&newer), newer);
}

#[test]
fn a_newer_writers_file_may_be_indented_by_hand() {
    let newer = of_a_newer_writer();
    let value: serde_json::Value = serde_json::from_str(&newer).unwrap();
    assert_eq!(again(&format!("{value:#}\n")), newer);
}

#[test]
fn a_changed_record_has_only_gos_fields_and_the_others_keep_theirs() {
    let newer = of_a_newer_writer();
    let (dir, store) = store_of(&newer);
    store
        .commit(|claims| claims.abort(STARTED_UID, at(0)))
        .unwrap();
    let written = file(&dir);
    let (completed, aborted) = written.split_at(written.find(STARTED_UID).unwrap());
    let (kept, of_started) = newer.split_at(newer.find(STARTED_UID).unwrap());
    // All before it, but for the checksum of V2.
    let until = kept.find(r#""v2":{"checksum":"#).unwrap();
    assert_eq!(completed[..until], kept[..until]);
    let from = r#","preparedClaims":{"#;
    let v2_of = |text: &str| text[text.rfind(from).unwrap()..].to_owned();
    assert_eq!(v2_of(completed), v2_of(kept));
    for field in ["aNew", "extra"] {
        assert!(
            of_started.contains(field) && !aborted.contains(field),
            "{field}"
        );
    }
    assert!(aborted.contains(r#","epoch":7,"nodeBootID""#));
    assert_eq!(again(&written), written);
    assert!(
        open(&dir).0.view().check_recovered().is_ok(),
        "both checksums match"
    );
}

#[test]
fn unknown_members_of_the_parts_stay_after_the_last_claim() {
    let text = unsealed(&fixture(COMPLETED)).to_string();
    let text = text.replacen(r#""v1":{"#, r#""v1":{"old":1,"#, 1);
    let text = sealed(&text.replace(r#","nodeBootID""#, r#","epoch":7,"nodeBootID""#));
    let (dir, store) = store_of(&text);
    let uid = store
        .view()
        .records_unchecked()
        .next()
        .unwrap()
        .0
        .to_owned();
    store.commit(move |claims| claims.remove(&uid)).unwrap();
    let written = file(&dir);
    assert!(written.contains(r#","v1":{"old":1},"v2":{"#), "{written}");
    assert!(written.contains(r#","epoch":7,"nodeBootID":"#), "{written}");
    assert_eq!(again(&written), written);
}

#[test]
fn the_first_change_drops_an_unknown_part() {
    let text = String::from_utf8(fixture(STARTED)).unwrap();
    let v3 = r#","v3":{"checksum":1,"claims":[]},"x":"v3"}"#;
    let newer = format!("{}{v3}", text.strip_suffix('}').unwrap());
    assert_eq!(again(&newer), newer);
    let (dir, store) = store_of(&newer);
    store
        .commit(|claims| claims.abort(STARTED_UID, at(0)))
        .unwrap();
    let written = file(&dir);
    assert!(!written.contains(r#""v3":"#), "{written}");
    assert!(written.ends_with(r#","x":"v3"}"#), "{written}");
}

#[test]
fn a_v1_file_keeps_its_unknown_members_in_both_parts() {
    let v1 = r#"{"preparedClaims":{"u":{"status":{},"new":1}},"old":2}"#;
    let outer = checksum(&format!(r#"{{"checksum":0,"v1":{v1}}}"#));
    let upgraded = again(&format!(r#"{{"checksum":{outer},"v1":{v1},"x":3}}"#));
    let (head, v2) = upgraded.split_once(r#","v2":"#).unwrap();
    assert_eq!(head, format!(r#"{{"checksum":{outer},"v1":{v1}"#));
    let claim =
        r#""preparedClaims":{"u":{"checkpointState":"PrepareCompleted","status":{},"new":1}}"#;
    assert!(v2.contains(claim) && v2.ends_with(r#","x":3}"#), "{v2}");
    assert_eq!(again(&upgraded), upgraded);
}

#[test]
fn v1_is_written_from_v2() {
    let mut file = unsealed(&fixture(COMPLETED));
    let uid = "11111111-aaaa-4bbb-8ccc-000000000001";
    file["v1"]["preparedClaims"][uid]["status"] = serde_json::json!({});
    file["v1"]["preparedClaims"]["stale"] = serde_json::json!({"status": {}});
    let written = again(&sealed(&file.to_string()));
    assert_eq!(written.as_bytes(), fixture(COMPLETED));
}

#[test]
fn manual_additions_without_a_matching_checksum_are_lost_as_in_go() {
    let text = String::from_utf8(fixture(COMPLETED)).unwrap();
    let edited = text.replace(r#""status":{"#, r#""status":{"mine":1,"#);
    assert_eq!(again(&edited), text);
    let edited = text.replacen(r#","nodeBootID""#, r#","mine":{},"nodeBootID""#, 1);
    assert_eq!(again(&edited), text);
}

#[test]
fn an_unknown_field_that_go_reads_as_a_known_one_is_dropped() {
    let text = String::from_utf8(fixture(COMPLETED)).unwrap();
    for key in ["V2", "v\\u0032", "CHECKSUM", "chec\u{212a}sum"] {
        let twice = format!(r#"{},"{key}":{{}}}}"#, text.strip_suffix('}').unwrap());
        let damaged = Checkpoint::<Group>::decode(twice.as_bytes()).unwrap_err();
        assert_eq!(damaged.saved.encode().unwrap(), fixture(COMPLETED), "{key}");
    }
}

#[test]
fn the_boot_id_is_written_in_its_place() {
    let text = unsealed(&fixture("10-v2-no-bootid-25.8-to-25.12.json")).to_string();
    let text = format!(r#"{},"epoch":7}}}}"#, text.strip_suffix("}}").unwrap());
    let (dir, store) = store_of(&sealed(&text));
    store
        .commit(|claims| {
            claims.assume_same_boot()?;
            Ok::<_, Refused>(())
        })
        .unwrap();
    let written = file(&dir);
    assert!(written.contains(r#"}},"nodeBootID":"#), "{written}");
    assert!(written.ends_with(r#","epoch":7}}"#), "{written}");
}

#[test]
fn unknown_members_of_a_reformatted_file_are_written_like_in_go() {
    let newer = of_a_newer_writer();
    for (mine, carried) in [
        (r#""x":{ "a" : [1, 2] }"#, r#""x":{"a":[1,2]}"#),
        (
            "\"x\":\"<\u{2028}&>\"",
            "\"x\":\"\\u003c\\u2028\\u0026\\u003e\"",
        ),
    ] {
        let beside = |member: &str| format!("{},{member}}}", newer.strip_suffix('}').unwrap());
        assert_eq!(again(&beside(mine)), beside(carried), "{mine}");
    }
}
