//! The reported place of the damage, for a reader with the file in an editor.

use dra_checkpoint::{Checkpoint, DamageReason, Survivors};

use super::detail::resealed;
use super::{GOOD, UID, decode, spoiled};
use crate::common::{Group, fixture};
use crate::format::sealed::{sealed, unsealed};

fn place(path: &str, flaw: &str) -> String {
    let path = if path.is_empty() { "the file" } else { path };
    format!("{path}: {flaw}")
}

#[test]
fn a_member_that_only_go_would_match_is_reported_with_gos_name() {
    for (bytes, path, flaw, survivors) in [
        (
            spoiled("\"v2\"", "\"V2\"", true),
            "V2",
            "Go reads this name as \"v2\"",
            Survivors::Some,
        ),
        (
            spoiled("\"v1\"", "\"V1\"", false),
            "V1",
            "Go reads this name as \"v1\"",
            Survivors::All,
        ),
        (
            spoiled("\"checksum\"", "\"CHECKSUM\"", false),
            "CHECKSUM",
            "Go reads this name as \"checksum\"",
            Survivors::All,
        ),
        (
            resealed("\"nodeBootID\"", "\"nodeBootId\""),
            "v2.nodeBootId",
            "Go reads this name as \"nodeBootID\"",
            Survivors::Some,
        ),
        (
            resealed("\"preparedClaims\"", "\"PreparedClaims\""),
            "v2.PreparedClaims",
            "Go reads this name as \"preparedClaims\"",
            Survivors::Some,
        ),
        (
            resealed(",\"nodeBootID\":", ",\"nodeBootID\":\"\",\"nodeBootID\":"),
            "v2.nodeBootID",
            "duplicate field",
            Survivors::Some,
        ),
    ] {
        let damaged = decode(&bytes);
        assert_eq!(damaged.reason, DamageReason::Layout, "{path}");
        assert_eq!(damaged.detail.as_ref(), Some(&place(path, flaw)), "{path}");
        assert_eq!(damaged.survivors, survivors, "{path}");
        assert!(
            damaged.to_string().contains(&format!("; {path}: {flaw}")),
            "{damaged}"
        );
    }
}

#[test]
fn a_duplicate_or_invalid_part_is_reported() {
    let good = String::from_utf8(fixture(GOOD)).unwrap();
    let v2 = good.find(",\"v2\":").unwrap();
    let twice = format!("{}{}", &good[..good.len() - 1], &good[v2..]);
    assert_eq!(
        decode(twice.as_bytes()).detail.as_ref(),
        Some(&place("v2", "duplicate field"))
    );
    for (v2_text, flaw) in [
        ("5", "not an object"),
        ("[]", "not an object"),
        (
            "{\"checksum\":0}",
            "missing, but \"w2\" resembles the key v2",
        ),
    ] {
        let name = if v2_text.starts_with('{') { "w2" } else { "v2" };
        let text = format!("{},\"{name}\":{v2_text}}}", &good[..v2]);
        let damaged = decode(text.as_bytes());
        assert_eq!(damaged.reason, DamageReason::Layout, "{v2_text}");
        assert_eq!(
            damaged.detail.as_ref(),
            Some(&place("v2", flaw)),
            "{v2_text}"
        );
        assert_eq!(damaged.survivors, Survivors::Some, "V1 is intact");
    }
    for text in ["[]", "7", "\"v2\"", "null"] {
        let damaged = decode(text.as_bytes());
        assert_eq!(
            damaged.detail.as_ref(),
            Some(&place("", "not an object")),
            "{text}"
        );
    }
}

#[test]
fn a_member_of_the_wrong_type_is_reported() {
    for (to, path, flaw) in [
        (
            "\"nodeBootID\":7",
            "v2.nodeBootID",
            "invalid type: integer `7`, expected a string",
        ),
        (
            "\"epoch\":1,\"Checksum\":1",
            "v2.Checksum",
            "Go reads this name as \"checksum\"",
        ),
    ] {
        let boot_id = format!("\"nodeBootID\":\"{}\"", crate::common::BOOT);
        assert_eq!(
            decode(&resealed(&boot_id, to)).detail.as_ref(),
            Some(&place(path, flaw))
        );
    }
    let mut file = unsealed(&fixture(GOOD));
    file["v2"]["preparedClaims"] = 5.into();
    let damaged = decode(sealed(&file.to_string()).as_bytes());
    assert_eq!(
        damaged.detail.as_ref(),
        Some(&place("v2.preparedClaims", "not an object"))
    );
}

#[test]
fn a_missing_part_is_not_a_mismatch() {
    let good = String::from_utf8(fixture(GOOD)).unwrap();
    let (v1, v2) = (
        good.find(",\"v1\":").unwrap(),
        good.find(",\"v2\":").unwrap(),
    );
    let checksum = &good[1..v1];
    let neither = "neither v1 nor v2 found";
    for (text, path, flaw) in [
        ("{}".to_owned(), "", neither),
        ("{\"checksum\":17,\"v1\":null}".to_owned(), "", neither),
        (format!("{{{checksum}{}", &good[v2..]), "v1", "missing"),
        (
            format!("{{{checksum},\"v1\":null{}", &good[v2..]),
            "v1",
            "null",
        ),
        (
            format!("{{{checksum},\"v1\":[]{}", &good[v2..]),
            "v1",
            "not an object",
        ),
    ] {
        let damaged = decode(text.as_bytes());
        assert_eq!(damaged.reason, DamageReason::Layout, "{text}");
        assert_eq!(damaged.detail.as_ref(), Some(&place(path, flaw)), "{text}");
        assert!(damaged.mismatches.is_empty(), "{damaged}");
        assert!(!damaged.to_string().contains("match"), "{damaged}");
    }
}

#[test]
fn a_missing_checksum_is_reported_as_missing_and_not_as_0() {
    let good = String::from_utf8(fixture(GOOD)).unwrap();
    for (from, path, survivors) in [
        ("\"checksum\":1190510907", "checksum", Survivors::All),
        ("\"checksum\":392506270", "v2.checksum", Survivors::Some),
    ] {
        let without = [
            (String::new(), "missing"),
            ("\"checksum\":null,".to_owned(), "null"),
            (
                "\"checksum\":\"1\",".to_owned(),
                "not an unsigned 64-bit number",
            ),
        ];
        for (to, flaw) in without {
            let damaged = decode(good.replace(&format!("{from},"), &to).as_bytes());
            assert_eq!(damaged.reason, DamageReason::Layout);
            assert_eq!(damaged.detail.as_ref(), Some(&place(path, flaw)));
            assert_eq!(damaged.survivors, survivors);
            let [mismatch] = damaged.mismatches[..] else {
                panic!("{damaged}")
            };
            assert_eq!(mismatch.stored, None);
            assert!(
                mismatch.to_string().contains(" has no checksum, "),
                "{mismatch}"
            );
        }
    }
}

#[test]
fn a_mismatch_does_not_hide_another_flaw() {
    for (from, to, message) in [
        (
            "\"nodeBootID\"",
            "\"nodeBootid\"",
            "; v2.nodeBootid: Go reads this name as \"nodeBootID\"; V2 checksum is ",
        ),
        (
            "\"namespace\"",
            "\"Namespace\"",
            ": Namespace: Go reads this name as \"namespace\"; V2 checksum is ",
        ),
    ] {
        let damaged = decode(&spoiled(from, to, true));
        assert_eq!(damaged.reason, DamageReason::V2Checksum);
        assert!(damaged.to_string().contains(message), "{damaged}");
    }
}

#[test]
fn a_v1_file_with_an_untrusted_v1_saves_nothing() {
    let good = fixture("09-v1-only-25.3.x.json");
    let spoiled = String::from_utf8(good.clone())
        .unwrap()
        .replacen("node-a", "node-b", 1);
    for (bytes, reason) in [
        (spoiled.as_bytes(), DamageReason::V1Checksum),
        (&good[..good.len() - 9], DamageReason::NotJson),
    ] {
        let damaged = decode(bytes);
        assert_eq!(
            (damaged.reason, damaged.survivors),
            (reason, Survivors::None)
        );
    }
}

#[test]
fn a_time_that_go_can_read_is_no_damage() {
    let name = "04-channel-aborted.json";
    let text = unsealed(&fixture(name)).to_string();
    let late = "\"abortedAt\":\"9999-12-31T23:59:59Z\"";
    let text = sealed(&text.replace("\"abortedAt\":\"2026-08-07T10:34:56Z\"", late));
    assert!(text.contains(late));
    let read = Checkpoint::<Group>::decode(text.as_bytes()).unwrap();
    assert_eq!(read.claims().count(), 1);
    assert_eq!(
        read.encode().unwrap(),
        text.as_bytes(),
        "the text is unchanged"
    );
    let wrong = text.replace(late, "\"abortedAt\":\"tomorrow\"");
    let message = decode(wrong.as_bytes()).to_string();
    assert!(
        message.contains("abortedAt: \"tomorrow\" is not an RFC 3339 time;"),
        "{message}"
    );
    assert!(!message.contains(UID));
}
