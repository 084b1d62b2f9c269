//! The commits that the tests of crashes and failing disks run.

use dra_checkpoint::{CommitError, Damage, Refused, State, Store};
use durable_file::SimDir;
use durable_file::sim::Crash;

use crate::common::{TestPayload, at, claim, open_as, status};

pub(crate) type Commit<P> = fn(&Store<P>) -> Result<(), CommitError<Refused>>;

pub(crate) fn script<P: TestPayload>() -> Vec<Commit<P>> {
    let mut script: Vec<Commit<P>> = vec![
        |store| store.commit(|claims| claims.start(&claim("a"), &status("p"), at(0))),
        |store| store.commit(|claims| claims.complete("a", &status("p"), vec![P::any()])),
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
    if !P::HAS_ABORTED {
        let again: [Commit<P>; 2] = [
            |store| store.commit(|claims| claims.start(&claim("b"), &status("r"), at(3))),
            |store| store.commit(|claims| claims.abort("b", at(4))),
        ];
        script.splice(4..4, again);
    }
    script
}

/// UID and state of every record, for comparisons.
pub(crate) type Summary<P> = Vec<(String, State<P>)>;

pub(crate) fn summary<P: TestPayload>(store: &Store<P>) -> Summary<P> {
    let view = store.view();
    view.records_unchecked()
        .map(|(uid, record)| (uid.to_owned(), record.state.clone()))
        .collect()
}

/// The state before the first and after each of the commits.
pub(crate) fn expected<P: TestPayload>(commits: &[Commit<P>]) -> Vec<Summary<P>> {
    run_all(&open_as(&SimDir::new()).0, commits, || {})
}

/// The state before the first and after each of the commits; some of a random sequence are refused.
pub(crate) fn run_all<P: TestPayload>(
    store: &Store<P>,
    commits: &[Commit<P>],
    acknowledge: impl Fn(),
) -> Vec<Summary<P>> {
    let mut states = vec![summary(store)];
    for commit in commits {
        let _ = commit(store);
        acknowledge();
        states.push(summary(store));
    }
    states
}

/// Checks that the file is intact, holds every acknowledged commit and at most one more,
/// and that the next process can continue with it.
pub(crate) fn check<P: TestPayload>(crash: &Crash, states: &[Summary<P>]) -> Result<(), String> {
    let (store, damage) = open_as(&crash.dir);
    let last = (crash.acknowledged + 1).min(states.len() - 1);
    let allowed = states.get(crash.acknowledged..=last).unwrap_or_default();
    let found = summary(&store);
    if damage != Damage::None || !allowed.contains(&found) {
        return Err(format!("{crash}: {damage:?}, {found:?}"));
    }
    let next = store.commit(|claims| claims.start(&claim("next"), &status("p"), at(0)));
    next.map_err(|error| format!("{crash}: {error}"))
}
