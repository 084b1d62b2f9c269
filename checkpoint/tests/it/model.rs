//! Random sequences of a driver's operations, compared with a plain map.

use std::collections::BTreeMap;

use dra_checkpoint::{Claims, CommitError, Refused, State, Store};
use durable_file::SimDir;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{Group, TestPayload, TwoFiles, at, claim, open_as, status};

type Uid = &'static str;
type Version = &'static str;

const UIDS: [Uid; 4] = ["a", "b", "c", "d"];
const VERSIONS: [Version; 2] = ["old", "new"];
const FENCE: i64 = 90;

#[derive(Debug, Clone, Copy)]
enum Op {
    Start(Uid, Version),
    Complete(Uid, Version),
    Abort(Uid),
    Remove(Uid),
    Expire,
    /// A closure that fails after its changes.
    FailAfterChanges(Uid),
    Wait(i64),
    Reopen,
    PowerLoss,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Model {
    Started(Version),
    Completed(Version),
    Aborted(Version, i64),
}

/// The result of an operation; the error is its code.
type Answer = Result<usize, &'static str>;

fn op() -> impl Strategy<Value = Op> {
    let (uid, version) = (select(&UIDS[..]), select(&VERSIONS[..]));
    prop_oneof![
        4 => (uid.clone(), version.clone()).prop_map(|(u, v)| Op::Start(u, v)),
        4 => (uid.clone(), version).prop_map(|(u, v)| Op::Complete(u, v)),
        2 => uid.clone().prop_map(Op::Abort),
        2 => uid.clone().prop_map(Op::Remove),
        1 => Just(Op::Expire),
        1 => uid.prop_map(Op::FailAfterChanges),
        1 => (1..200_i64).prop_map(Op::Wait),
        1 => Just(Op::Reopen),
        1 => Just(Op::PowerLoss),
    ]
}

/// The same rules without files, versions or views.
fn expect(map: &mut BTreeMap<Uid, Model>, op: Op, now: i64) -> Answer {
    let fenced = |at: i64| now < at + FENCE;
    match op {
        Op::Start(uid, version) => match map.get(uid) {
            Some(Model::Completed(_)) => Err("claim-completed"),
            Some(Model::Aborted(same, at)) if *same == version && fenced(*at) => {
                Err("claim-aborted")
            }
            _ => {
                map.insert(uid, Model::Started(version));
                Ok(0)
            }
        },
        Op::Complete(uid, version) => match map.get(uid) {
            Some(Model::Started(same)) if *same == version => {
                map.insert(uid, Model::Completed(version));
                Ok(0)
            }
            Some(Model::Started(_)) => Err("claim-changed"),
            Some(Model::Completed(_)) => Err("claim-completed"),
            Some(Model::Aborted(..)) | None => Err("claim-not-started"),
        },
        Op::Abort(uid) => match map.get(uid) {
            Some(Model::Started(version)) => {
                map.insert(uid, Model::Aborted(version, now));
                Ok(0)
            }
            Some(Model::Aborted(..)) => Ok(0),
            Some(Model::Completed(_)) => Err("claim-prepared"),
            None => Err("claim-not-started"),
        },
        Op::Remove(uid) => match map.get(uid) {
            Some(Model::Completed(_)) => {
                map.remove(uid);
                Ok(0)
            }
            Some(Model::Started(_)) => Err("claim-in-progress"),
            Some(Model::Aborted(..)) | None => Ok(0),
        },
        Op::Expire => {
            let before = map.len();
            map.retain(|_, state| !matches!(state, Model::Aborted(_, at) if !fenced(*at)));
            Ok(before - map.len())
        }
        Op::FailAfterChanges(_) => Err("claim-not-started"),
        Op::Wait(_) | Op::Reopen | Op::PowerLoss => Ok(0),
    }
}

fn change<P: TestPayload>(
    claims: &mut Claims<P>,
    op: Op,
    now: Timestamp,
) -> Result<usize, Refused> {
    match op {
        Op::Start(uid, version) => claims.start(&claim(uid), &status(version), now).map(|()| 0),
        Op::Complete(uid, version) => claims
            .complete(uid, &status(version), vec![P::any()])
            .map(|()| 0),
        Op::Abort(uid) => claims.abort(uid, now).map(|()| 0),
        Op::Remove(uid) => claims.remove(uid).map(|()| 0),
        Op::Expire => Ok(claims.expire(now)),
        Op::FailAfterChanges(uid) => {
            // The changes are rolled back, whether or not they succeed.
            let _ = claims.remove(uid);
            let _ = claims.start(&claim(uid), &status("regretted"), now);
            claims.expire(now);
            claims.abort("nobody", now).map(|()| 0)
        }
        Op::Wait(_) | Op::Reopen | Op::PowerLoss => Ok(0),
    }
}

fn records<P: TestPayload>(store: &Store<P>) -> BTreeMap<Uid, Model> {
    let view = store.view();
    let records = view.records_unchecked().map(|(uid, record)| {
        let uid = *UIDS.iter().find(|known| **known == uid).unwrap();
        let version = VERSIONS.iter().find(|name| status(name) == record.status);
        let version = *version.unwrap();
        let model = match &record.state {
            State::Started => Model::Started(version),
            State::Completed(devices) => {
                assert_eq!(devices, &[P::any()]);
                Model::Completed(version)
            }
            State::Aborted { at: time } => {
                let since = time.unwrap().as_second() - at(0).as_second();
                Model::Aborted(version, since)
            }
        };
        (uid, model)
    });
    records.collect()
}

fn run<P: TestPayload>(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut dir = SimDir::new();
    let mut store = open_as::<P>(&dir).0;
    let (mut map, mut now) = (BTreeMap::new(), 0);
    for op in ops {
        match op {
            Op::Wait(seconds) => now += seconds,
            Op::Reopen => store = open_as(&dir).0,
            Op::PowerLoss => {
                dir = dir.after_power_loss();
                store = open_as(&dir).0;
            }
            _ => {}
        }
        let expected = expect(&mut map, op, now);
        let answer = match store.commit(move |claims| change(claims, op, at(now))) {
            Ok(count) => Ok(count),
            Err(CommitError::Refused(refused)) => Err(refused.code()),
            Err(CommitError::Store(error)) => panic!("{error}"),
        };
        prop_assert_eq!(answer, expected, "{:?}", op);
        prop_assert_eq!(records(&store), map.clone(), "{:?}", op);
    }
    prop_assert_eq!(records(&open_as::<P>(&dir.after_power_loss()).0), map);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_changes_the_store_like_a_map(ops in prop::collection::vec(op(), 1..40)) {
        run::<Group>(ops)?;
    }

    // req: CKPT-19
    #[test]
    fn any_sequence_changes_a_store_with_two_files_like_a_map(ops in prop::collection::vec(op(), 1..40)) {
        run::<TwoFiles>(ops)?;
    }
}
