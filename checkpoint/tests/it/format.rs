//! Reading and writing files of the Go driver.

mod carry;
mod random;
pub(crate) mod sealed;

use std::sync::Arc;

use dra_checkpoint::{
    Boot, BootId, Checkpoint, ClaimRef, ClaimStatus, Damage, Layout, State, Store,
};
use durable_file::SimDir;
use proptest::prelude::{prop_assert_eq, proptest};

use crate::common::{BOOT, Group, at, fixture};

fn decode(name: &str) -> Checkpoint<Group> {
    Checkpoint::decode(&fixture(name)).unwrap()
}

/// UID, state and name of every claim.
fn summary(checkpoint: &Checkpoint<Group>) -> Vec<(String, &'static str, String)> {
    let states = checkpoint.claims().map(|(uid, record)| {
        let state = match record.state {
            State::Started => "started",
            State::Completed(_) => "completed",
            State::Aborted { .. } => "aborted",
        };
        (uid.to_owned(), state, record.name.clone())
    });
    states.collect()
}

/// The fixtures that Go, too, writes again unchanged.
const CANONICAL: [&str; 8] = [
    "01-empty.json",
    "02-channel-completed.json",
    "03-channel-started.json",
    "04-channel-aborted.json",
    "05-daemon-completed.json",
    "06-unicode-html.json",
    "08-channel-completed-no-clique.json",
    "10-v2-no-bootid-25.8-to-25.12.json",
];

// req: CKPT-2
#[test]
fn a_file_of_go_is_written_again_byte_for_byte() {
    for name in CANONICAL {
        let text = String::from_utf8(fixture(name)).unwrap();
        let again = String::from_utf8(decode(name).encode().unwrap()).unwrap();
        assert_eq!(again, text, "{name}");
    }
}

#[test]
fn another_spelling_is_written_in_gos_spelling() {
    for name in CANONICAL {
        let text = String::from_utf8(fixture(name)).unwrap();
        // In V1, in V2, in both; in our fields, the status's and the payload's.
        for (from, to) in [
            ("\"Prepare", r#""\u0050repare"#),
            ("\"pods\"", r#""\u0070ods""#),
            (r#"Name":"node-a""#, r#"Name":"\u006eode-a""#),
            ("\"näme", r#""n\u00e4me"#),
            ("\"6f1c1f0e", r#""\u0036f1c1f0e"#),
            ("a\\u003cb \\u0026", "a<b &"),
            (r#"Z","reason""#, r#".5Z","reason""#),
        ] {
            let respelled = text.replace(from, to);
            let read = Checkpoint::<Group>::decode(respelled.as_bytes()).unwrap();
            let again = String::from_utf8(read.encode().unwrap()).unwrap();
            assert_eq!(again, text, "{name}, {from}");
        }
    }
}

// req: CKPT-3
#[test]
fn the_layout_is_recognized() {
    for (name, layout, code) in [
        ("01-empty.json", Layout::V2, "v2"),
        (
            "10-v2-no-bootid-25.8-to-25.12.json",
            Layout::V2WithoutBootId,
            "v2-without-boot-id",
        ),
        ("09-v1-only-25.3.x.json", Layout::V1, "v1"),
        ("11-v1-only-empty.json", Layout::V1, "v1"),
        ("12-legacy-25.3.0-rc.2.json", Layout::V1Rc2, "v1-rc.2"),
    ] {
        assert_eq!(decode(name).layout(), layout, "{name}");
        assert_eq!(layout.code(), code);
        let written = decode(name).encode().unwrap();
        let again = Checkpoint::<Group>::decode(&written).unwrap().layout();
        assert!(
            matches!(again, Layout::V2 | Layout::V2WithoutBootId),
            "{name}"
        );
    }
}

#[test]
fn white_space_in_the_file_is_irrelevant() {
    let value: serde_json::Value =
        serde_json::from_slice(&fixture("02-channel-completed.json")).unwrap();
    let pretty = serde_json::to_vec_pretty(&value).unwrap();
    let read = Checkpoint::<Group>::decode(&pretty).unwrap();
    assert_eq!(read.encode().unwrap(), fixture("02-channel-completed.json"));
}

#[test]
fn states_names_and_boot_are_read() {
    let started = decode("03-channel-started.json");
    let [(_, state, name)] = &summary(&started)[..] else {
        panic!("one claim")
    };
    assert_eq!(
        (*state, name.as_str()),
        ("started", "worker-1-compute-domain-channel-fghij")
    );
    assert_eq!(started.boot_id(), Some(BOOT));

    let aborted = decode("04-channel-aborted.json");
    let (_, record) = aborted.claims().next().unwrap();
    let State::Aborted { at: Some(at) } = record.state else {
        panic!("aborted")
    };
    assert_eq!(at.to_string(), "2026-08-07T10:34:56Z");

    let daemon = decode("05-daemon-completed.json");
    let (_, record) = daemon.claims().next().unwrap();
    let device = record.devices()[0].devices[0].daemon.as_ref().unwrap();
    assert_eq!(
        device
            .device
            .as_ref()
            .unwrap()
            .cdi_device_ids
            .as_ref()
            .unwrap()
            .len(),
        2
    );
}

// req: CKPT-3
#[test]
fn a_v1_file_becomes_v2_with_completed_nameless_claims_of_an_unknown_boot() {
    let upgraded = decode("09-v1-only-25.3.x.json");
    let claims = summary(&upgraded);
    assert_eq!(claims.len(), 2);
    assert!(
        claims
            .iter()
            .all(|(_, state, name)| *state == "completed" && name.is_empty())
    );
    assert_eq!(upgraded.boot_id(), None);

    let written = upgraded.encode().unwrap();
    let again = Checkpoint::<Group>::decode(&written).unwrap();
    assert_eq!(summary(&again), claims);
    // The V1 part, checksum included, is what 25.3.x wrote.
    let old = fixture("09-v1-only-25.3.x.json");
    assert!(written.starts_with(&old[..old.len() - 1]));
}

#[test]
fn an_empty_v1_file_is_an_empty_checkpoint() {
    assert_eq!(summary(&decode("11-v1-only-empty.json")), []);
}

// req: CKPT-3
#[test]
fn the_layout_of_25_3_0_rc_2_is_upgraded_without_a_status() {
    let upgraded = decode("12-legacy-25.3.0-rc.2.json");
    let (_, record) = upgraded.claims().next().unwrap();
    assert!(!record.status.is_allocated());
    assert!(record.status.results().is_empty() && record.status.configs().is_empty());
    let device = record.devices()[0].devices[0].channel.as_ref().unwrap();
    assert_eq!(device.device.as_ref().unwrap().device_name, "channel-0");

    let written = upgraded.encode().unwrap();
    let text = String::from_utf8(written.clone()).unwrap();
    assert!(text.contains(r#""status":{},"preparedDevices""#), "{text}");
    assert_eq!(
        summary(&Checkpoint::decode(&written).unwrap()),
        summary(&upgraded)
    );
}

#[test]
fn an_unknown_top_level_key_is_not_damage() {
    let known = decode("02-channel-completed.json");
    assert_eq!(
        summary(&decode("13-unknown-top-level-key.json")),
        summary(&known)
    );
}

#[test]
fn a_file_without_v1_is_accepted_like_in_go() {
    let empty = r#"{"checksum":4166374854}"#;
    assert_eq!(summary(&Checkpoint::decode(empty.as_bytes()).unwrap()), []);
    let v2 = format!(
        r#"{{"checksum":4166374854,"v2":{{"checksum":3135963545,"nodeBootID":"{BOOT}"}}}}"#
    );
    assert_eq!(
        Checkpoint::<Group>::decode(v2.as_bytes())
            .unwrap()
            .boot_id(),
        Some(BOOT)
    );
}

// req: CKPT-5
#[test]
fn every_flipped_bit_is_detected() {
    for name in ["02-channel-completed.json", "03-channel-started.json"] {
        let good = fixture(name);
        for at in 0..good.len() {
            for bit in [0x01, 0x20] {
                let mut bad = good.clone();
                bad[at] ^= bit;
                // Whitespace may change; content must not.
                if let Ok(read) = Checkpoint::<Group>::decode(&bad) {
                    assert_eq!(read.encode().unwrap(), good, "{name}, byte {at} ^ {bit:#x}");
                }
            }
        }
    }
}

// req: CKPT-5
#[test]
fn no_truncated_file_is_read() {
    for name in ["02-channel-completed.json", "09-v1-only-25.3.x.json"] {
        let good = fixture(name);
        for length in 0..good.len() {
            assert!(
                Checkpoint::<Group>::decode(&good[..length]).is_err(),
                "{name}, {length}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_text_survives_the_file(
        uid in ".*", name in ".*", namespace in ".*", pod in ".*", boot in "[^\\s]{1,20}",
    ) {
        let status = serde_json::json!({"reservedFor": [{"resource": "pods", "name": pod}]});
        let status = ClaimStatus::from_json(&status.to_string()).unwrap();
        let claim = ClaimRef { uid: uid.clone(), name: name.clone(), namespace: namespace.clone() };
        let boot = BootId::new(&boot).unwrap();
        let dir = SimDir::new();
        let open = || Store::<Group>::open(Arc::new(dir.clone()), boot.clone()).unwrap();
        let (store, _) = open();
        let given = status.clone();
        store.commit(move |claims| claims.start(&claim, &given, at(0))).unwrap();

        let (store, damage) = open();
        prop_assert_eq!(damage, Damage::None);
        let view = store.view();
        prop_assert_eq!(view.boot(), &Boot::Same);
        let record = view.get(&uid).unwrap();
        prop_assert_eq!((&record.name, &record.namespace), (&name, &namespace));
        prop_assert_eq!(&record.status, &status);
    }
}
