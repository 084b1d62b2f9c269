//! A checkpoint that cannot be trusted: what is known, kept, and refused.

use dra_checkpoint::{Damage, DamageReason, Refused, Store, Survivors, Unsettled};
use durable_file::{Dir, SimDir};

use crate::common::{Group, at, boot, claim, fixture, group, open, status};

const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
const GOOD: &str = "02-channel-completed.json";

fn dir_holding(bytes: &[u8]) -> SimDir {
    let dir = SimDir::new();
    dir.replace("checkpoint.json", bytes, 0o600).unwrap();
    dir
}

/// The fixture with one occurrence of a text replaced; the last one is in V2.
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

fn damaged(reason: DamageReason, survivors: Survivors) -> Damage {
    let kept_as = format!("checkpoint.json.damaged-{}", reason.code());
    Damage::Damaged {
        reason,
        kept_as,
        survivors,
    }
}

fn settle(store: &Store<Group>) {
    store
        .commit(|claims| {
            claims.settle_damage();
            Ok::<_, Refused>(())
        })
        .unwrap();
}

#[test]
fn each_kind_of_damage_is_named_kept_and_survived_as_far_as_possible() {
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
        let expected = damaged(reason, survivors);
        assert_eq!(damage, expected);
        assert_eq!(store.view().damage(), &expected);
        assert_eq!(
            store.view().get(UID).is_some(),
            survivors != Survivors::None
        );
        assert_eq!(store.view().all().err(), Some(Unsettled::Damaged));

        let Damage::Damaged { kept_as, .. } = damage else {
            panic!("damaged")
        };
        assert_eq!(
            dir.read(&kept_as).unwrap().unwrap(),
            bytes,
            "kept as it was"
        );
        assert_eq!(dir.read("checkpoint.json").unwrap(), None);
    }
}

#[test]
fn a_newer_drivers_claim_state_is_damage_not_a_guess() {
    // Another state, with a checksum that fits: taken from a real writer's rules.
    let dir = dir_holding(&fixture("03-channel-started.json"));
    let bytes = dir.read("checkpoint.json").unwrap().unwrap();
    let text = String::from_utf8(bytes)
        .unwrap()
        .replace("PrepareStarted", "PreparePostponed");
    let text = text.replace("262455068", &checksum_of_v2(&text).to_string());
    let (_, damage) = open(&dir_holding(text.as_bytes()));
    assert_eq!(damage, damaged(DamageReason::UnknownState, Survivors::Some));
}

/// The checksum by its definition: over the text of the rendering.
fn checksum_of_v2(text: &str) -> u32 {
    let start = text.find(r#""v2":"#).unwrap() + 5;
    let v2 = text[start..text.len() - 1].replace("262455068", "0");
    let bytes: Vec<String> = v2.bytes().map(|b| b.to_string()).collect();
    let rendered = format!("([]uint8)[{}]", bytes.join(" "));
    rendered.bytes().fold(0x811c_9dc5, |hash: u32, c| {
        (hash ^ u32::from(c)).wrapping_mul(0x0100_0193)
    })
}

#[test]
fn an_unsettled_store_starts_and_completes_nothing_but_still_undoes() {
    let dir = dir_holding(&spoiled("node-a", "node-b", true));
    let (store, _) = open(&dir);
    let refused = store.commit(|claims| claims.start(&claim("b"), &status("p"), at(0)));
    assert!(refused.unwrap_err().to_string().contains("not rebuilt"));
    assert!(store.commit(|claims| claims.remove(UID)).unwrap());
    // What was undone does not come back from the bad file.
    let (reopened, damage) = open(&dir);
    assert!(reopened.view().get(UID).is_none());
    assert_eq!(damage, damaged(DamageReason::V2Checksum, Survivors::Some));
}

#[test]
fn damage_is_reported_until_it_is_settled_also_to_later_processes() {
    let dir = dir_holding(b"{");
    let kept = damaged(DamageReason::NotJson, Survivors::None);
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
    settle(&store);
    assert_eq!(store.view().all().unwrap().count(), 1);

    let (later, damage) = open(&dir);
    assert_eq!(damage, Damage::None);
    assert!(later.view().get("a").unwrap().is_completed());
    let kept = dir.read("checkpoint.json.settled-not-json").unwrap();
    assert_eq!(
        kept.as_deref(),
        Some(&b"{"[..]),
        "the bad file is still there"
    );
}

#[test]
fn a_survivor_is_not_overwritten_by_a_restore() {
    let (store, _) = open(&dir_holding(&spoiled("node-a", "node-b", true)));
    let known = store.view().get(UID).unwrap().clone();
    store
        .commit(|claims| claims.restore(&claim(UID), status("p"), vec![]))
        .unwrap();
    assert_eq!(store.view().get(UID).unwrap(), &known);
}

#[test]
fn a_whole_store_takes_no_claims_from_elsewhere() {
    let (store, _) = open(&SimDir::new());
    let refused = store.commit(|claims| claims.restore(&claim("a"), status("p"), vec![]));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("no claims are missing")
    );
}

#[test]
fn damage_under_a_running_store_loses_nothing_that_it_knew() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
        .unwrap();
    dir.replace("checkpoint.json", b"scribble", 0o600).unwrap();

    let refused = store.commit(|claims| claims.start(&claim("b"), &status("p"), at(0)));
    assert!(refused.unwrap_err().to_string().contains("damaged"));
    assert!(store.view().get("a").is_some());
    settle(&store);
    let (reopened, damage) = open(&dir);
    assert_eq!(damage, Damage::None);
    assert!(reopened.view().get("a").is_some());
}

#[test]
fn a_file_that_someone_removed_is_written_again() {
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
    assert_eq!(damage, damaged(DamageReason::NotAFile, Survivors::None));
    settle(&store);
    assert!(store.view().all().is_ok());
}
