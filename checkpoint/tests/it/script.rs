//! The commits that the tests of crashes and failing disks run.

use dra_checkpoint::{CommitError, Damage, Refused, State, Store};
use durable_file::SimDir;
use durable_file::sim::Crash;

use crate::common::{Group, at, claim, group, open, status};

pub(crate) type Commit = fn(&Store<Group>) -> Result<(), CommitError<Refused>>;

pub(crate) const SCRIPT: &[Commit] = &[
    |store| store.commit(|claims| claims.start(&claim("a"), &status("p"), at(0))),
    |store| store.commit(|claims| claims.complete("a", &status("p"), vec![group()])),
    |store| store.commit(|claims| claims.start(&claim("b"), &status("q"), at(1))),
    |store| store.commit(|claims| claims.abort("b", at(2))),
    |store| store.commit(|claims| claims.remove("a").map(drop)),
    |store| {
        store.commit(|claims| {
            claims.expire(at(200));
            Ok(())
        })
    },
];

/// UID and state of every record, for comparisons.
pub(crate) type Summary = Vec<(String, State<Group>)>;

pub(crate) fn summary(store: &Store<Group>) -> Summary {
    let view = store.view();
    view.records_unchecked()
        .map(|(uid, record)| (uid.to_owned(), record.state.clone()))
        .collect()
}

/// The state before the first and after each of the commits.
pub(crate) fn expected(commits: &[Commit]) -> Vec<Summary> {
    let (store, _) = open(&SimDir::new());
    let mut states = vec![summary(&store)];
    for commit in commits {
        let _ = commit(&store);
        states.push(summary(&store));
    }
    states
}

/// Checks that the file is intact, holds every acknowledged commit and at most one more,
/// and that the next process can continue with it.
pub(crate) fn check(crash: &Crash, states: &[Summary]) -> Result<(), String> {
    let (store, damage) = open(&crash.dir);
    let last = (crash.acknowledged + 1).min(states.len() - 1);
    let allowed = states.get(crash.acknowledged..=last).unwrap_or_default();
    let found = summary(&store);
    if damage != Damage::None || !allowed.contains(&found) {
        return Err(format!("{crash}: {damage:?}, {found:?}"));
    }
    let next = store.commit(|claims| claims.start(&claim("next"), &status("p"), at(0)));
    next.map_err(|error| format!("{crash}: {error}"))
}
