//! Where in the file it is wrong, for a person who looks at it in an editor.

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
fn a_member_that_only_go_would_find_is_named_with_what_it_is_to_go() {
    for (bytes, path, flaw, survivors) in [
        (
            spoiled("\"v2\"", "\"V2\"", true),
            "V2",
            "Go reads it as \"v2\"",
            Survivors::Some,
        ),
        (
            spoiled("\"v1\"", "\"V1\"", false),
            "V1",
            "Go reads it as \"v1\"",
            Survivors::All,
        ),
        (
            spoiled("\"checksum\"", "\"CHECKSUM\"", false),
            "CHECKSUM",
            "Go reads it as \"checksum\"",
            Survivors::All,
        ),
        (
            resealed("\"nodeBootID\"", "\"nodeBootId\""),
            "v2.nodeBootId",
            "Go reads it as \"nodeBootID\"",
            Survivors::Some,
        ),
        (
            resealed("\"preparedClaims\"", "\"PreparedClaims\""),
            "v2.PreparedClaims",
            "Go reads it as \"preparedClaims\"",
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
fn a_part_that_is_there_twice_or_is_none_is_named() {
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
        ("{\"checksum\":0}", "missing, but \"w2\" looks like it"),
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
        assert_eq!(damaged.survivors, Survivors::Some, "V1 is whole");
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
fn a_member_of_another_kind_is_named() {
    for (to, path, flaw) in [
        (
            "\"nodeBootID\":7",
            "v2.nodeBootID",
            "invalid type: integer `7`, expected a string",
        ),
        (
            "\"epoch\":1,\"Checksum\":1",
            "v2.Checksum",
            "Go reads it as \"checksum\"",
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
fn what_is_not_there_is_no_mismatch() {
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
fn a_checksum_that_is_not_there_is_none_and_not_0() {
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
fn a_checksum_that_does_not_match_does_not_hide_what_else_is_wrong() {
    for (from, to, said) in [
        (
            "\"nodeBootID\"",
            "\"nodeBootid\"",
            "; v2.nodeBootid: Go reads it as \"nodeBootID\"; V2 checksum is ",
        ),
        (
            "\"namespace\"",
            "\"Namespace\"",
            ": Namespace: Go reads it as \"namespace\"; V2 checksum is ",
        ),
    ] {
        let damaged = decode(&spoiled(from, to, true));
        assert_eq!(damaged.reason, DamageReason::V2Checksum);
        assert!(damaged.to_string().contains(said), "{damaged}");
    }
}

#[test]
fn a_v1_file_of_which_v1_is_not_to_be_trusted_saves_nothing() {
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
fn a_time_that_go_can_read_does_not_cost_the_claim() {
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
        "the text is carried"
    );
    let wrong = text.replace(late, "\"abortedAt\":\"tomorrow\"");
    let said = decode(wrong.as_bytes()).to_string();
    assert!(
        said.contains("abortedAt: \"tomorrow\" is not an RFC 3339 time;"),
        "{said}"
    );
    assert!(!said.contains(UID));
}
