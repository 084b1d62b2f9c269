//! The details and hints of damage.

use dra_checkpoint::{Checkpoint, Class, CommitError, DamageReason, RecoveryNeeded};
use durable_file::SimDir;

use super::{GOOD, UID, decode, dir_holding, spoiled};
use crate::common::{Group, at, claim, fixture, open, status};
use crate::format::sealed::{sealed, unsealed};

#[test]
fn the_place_of_a_json_error_is_reported() {
    let cut = decode(&fixture(GOOD)[..1000]);
    let place = "EOF while parsing a string at line 1 column 1000";
    assert_eq!(cut.detail.as_deref(), Some(place));
    let message = format!("the checkpoint is damaged: the file is not JSON; {place}");
    assert_eq!(cut.to_string(), message);

    let mut scribbled = fixture(GOOD);
    scribbled[1234] = 0;
    let place = decode(&scribbled).detail.unwrap();
    assert!(place.ends_with(" at line 1 column 1234"), "{place}");
    let flipped = decode(&spoiled("node-a", "node-b", true));
    assert_eq!(flipped.detail, None);
    let mismatch = flipped.mismatches[0];
    let message = "the checkpoint is damaged: the V2 part does not match its checksum";
    assert_eq!(flipped.to_string(), format!("{message}; {mismatch}"));
}

#[test]
fn a_claim_in_an_unknown_state_is_reported_with_its_state() {
    let mut file = unsealed(&fixture("03-channel-started.json"));
    let claim = &mut file["v2"]["preparedClaims"]["22222222-aaaa-4bbb-8ccc-000000000002"];
    claim["checkpointState"] = "PreparePostponed".into();
    let damaged = decode(sealed(&file.to_string()).as_bytes());
    assert_eq!(damaged.reason, DamageReason::UnknownState);
    let place =
        "claim 22222222-aaaa-4bbb-8ccc-000000000002 is in the unknown state \"PreparePostponed\"";
    assert!(damaged.to_string().ends_with(place), "{damaged}");
    assert!(damaged.hint().contains("newer driver"));
}

/// The completed claim's file with one text of V2 replaced and a matching checksum.
pub(super) fn resealed(from: &str, to: &str) -> Vec<u8> {
    let bytes = spoiled(from, to, true);
    let computed = decode(&bytes)
        .mismatches
        .first()
        .unwrap()
        .computed
        .to_string();
    let text = String::from_utf8(bytes).unwrap();
    text.replace("392506270", &computed).into_bytes()
}

#[test]
fn an_invalid_member_is_reported() {
    for (from, to, flaw) in [
        (
            r#""status":{"#,
            r#""status":7,"new":{"#,
            "status: invalid type",
        ),
        (
            r#""status":{"#,
            r#""Status":0,"status":{"#,
            r#"Status: Go reads this name as "status""#,
        ),
        (
            r#""status":{"#,
            r#""name":"","status":{"#,
            "name: duplicate field",
        ),
        (r#""id":0"#, r#""id":"0""#, "preparedDevices: invalid type"),
        (
            r#""id":0"#,
            r#""di":0"#,
            "preparedDevices: missing field `id`",
        ),
    ] {
        let damaged = decode(&resealed(from, to));
        assert_eq!(damaged.reason, DamageReason::Layout);
        let found = damaged.detail.unwrap();
        let expected = format!("invalid record of claim {UID}: {flaw}");
        assert!(found.starts_with(&expected), "{found}");
        assert!(
            !found.contains("line"),
            "the line would be that of the member, not of the file: {found}"
        );
    }
    let uid = UID;
    let of_v1 = format!(r#"{{"checksum":0,"v1":{{"preparedClaims":{{"{uid}":7}}}}}}"#);
    let computed = decode(of_v1.as_bytes()).mismatches[0].computed;
    let of_v1 = of_v1.replace(":0,", &format!(":{computed},"));
    let expected = format!("invalid record of claim {uid}: not an object");
    assert_eq!(decode(of_v1.as_bytes()).detail.as_ref(), Some(&expected));
}

#[test]
fn a_payload_field_that_only_go_would_match_is_damage_and_not_a_free_device() {
    for (from, to) in [
        (r#""channel":{"#, r#""Channel":{"#),
        (r#""channel":{"#, r#""channel":null,"CHANNEL":{"#),
        (r#""channel":{"#, r#""channel":null,"channel":{"#),
        (r#""CDIDeviceIDs""#, r#""cdiDeviceIds""#),
        (r#""Requests""#, "\"Reque\u{17f}ts\""),
        (r#""configState":{"#, r#""configstate":0,"configState":{"#),
    ] {
        let damaged = decode(&resealed(from, to));
        assert_eq!(damaged.reason, DamageReason::Layout, "{to}");
        assert!(
            damaged
                .detail
                .unwrap()
                .starts_with("invalid record of claim ")
        );
        // In V1 the claim still holds its channel.
        let held = damaged
            .saved
            .claims()
            .flat_map(|(_, record)| record.devices());
        assert_eq!(held.count(), 1, "{to}");
    }
    // A name with escapes is read like in Go.
    let spelled = spoiled(r#""channel":{"#, r#""\u0063hannel":{"new":1,"#, true);
    let read = Checkpoint::<Group>::decode(&spelled).unwrap();
    assert_eq!(read.encode().unwrap(), fixture(GOOD));
}

#[test]
fn a_lost_boot_id_differs_from_one_that_was_never_recorded() {
    let without = fixture("10-v2-no-bootid-25.8-to-25.12.json");
    for (bytes, recorded, is_lost) in [
        (spoiled("node-a", "node-b", false), true, false),
        (spoiled("node-a", "node-b", true), false, true),
        (fixture(GOOD)[..2000].to_vec(), false, true),
        (b"".to_vec(), false, true),
        ([&without[..], b"}"].concat(), false, false),
        (without[..without.len() - 9].to_vec(), false, true),
    ] {
        let damaged = decode(&bytes);
        assert_eq!(damaged.saved.boot_id().is_some(), recorded, "{damaged}");
        assert_eq!(damaged.boot_id_is_lost(), is_lost, "{damaged}");
    }
    // V2 can be trusted and has no boot id, although all claims come from V1.
    let mut file = unsealed(&without);
    let claims = file["v2"]["preparedClaims"].as_object_mut().unwrap();
    claims
        .values_mut()
        .for_each(|claim| claim["checkpointState"] = "New".into());
    assert!(!decode(sealed(&file.to_string()).as_bytes()).boot_id_is_lost());
}

#[test]
fn a_refused_commit_has_code_hint_and_class_like_a_failed_one() {
    let (store, _) = open(&dir_holding(b"{"));
    let refused = store
        .commit(|claims| claims.start(&claim("b"), &status("p"), at(0)))
        .unwrap_err();
    assert_eq!(refused.code(), "checkpoint-damaged");
    assert_eq!(refused.hint(), RecoveryNeeded::Damaged.hint());
    assert_eq!(refused.class(), Class::Retry);

    let dir = SimDir::new();
    let (store, _) = open(&dir);
    dir.fail_step(1, 28);
    let failed = store
        .commit(|claims| claims.start(&claim("b"), &status("p"), at(0)))
        .unwrap_err();
    assert_eq!((failed.code(), failed.class()), ("disk-full", Class::Retry));
    assert!(failed.hint().starts_with("free up space"));
    let CommitError::Store(store_error) = failed else {
        panic!("the disk is full")
    };
    let message = store_error.to_string();
    assert!(message.ends_with("/checkpoint.json)"), "{message}");
    let source = std::error::Error::source(&store_error).unwrap().to_string();
    assert!(source.ends_with("/checkpoint.json"), "{source}");
}
