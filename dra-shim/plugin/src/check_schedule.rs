//! Schedules the look-ups of recorded claims on the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use tokio::time::Instant;

/// Pause between two checks in the round of all records: the load of an idle node with
/// claims on the API server. With n records, an orphan that blocks no Prepare is found
/// after n pauses.
const ROUND_PAUSE: Duration = Duration::from_secs(10 * 60);

/// Random addition to [`ROUND_PAUSE`], so that nodes that started together drift apart.
const ROUND_JITTER: Duration = Duration::from_secs(2 * 60);

/// Pause between two checks of a claim that was not found or that blocks a Prepare:
/// six of them fit into [`ABSENT_FOR`](node_claims::ABSENT_FOR).
pub(crate) const RECHECK_PAUSE: Duration = Duration::from_secs(30);

/// Decides when each claim is checked: all records in turn, one at a time; a claim that
/// was not found, every 30 s; a claim that blocks a Prepare, at once.
#[derive(Debug)]
pub struct CheckSchedule {
    next_in_round: Instant,
    /// The claim that the round has checked last.
    last: String,
    /// Time of each claim's last check.
    checked: BTreeMap<String, Instant>,
}

// === impl CheckSchedule ===

impl CheckSchedule {
    /// The first check is at a random time: nodes may start together.
    pub fn new(now: Instant) -> Self {
        Self {
            next_in_round: now + ROUND_PAUSE.mul_f64(fastrand::f64()),
            last: String::new(),
            checked: BTreeMap::new(),
        }
    }

    /// The next time at which [`due`](Self::due) may return a claim.
    pub fn next<'a>(&self, missed: impl Iterator<Item = &'a str>) -> Instant {
        let rechecks = missed.filter_map(|uid| Some(*self.checked.get(uid)? + RECHECK_PAUSE));
        rechecks.fold(self.next_in_round, Instant::min)
    }

    /// Recorded claims to check now.
    // req: NODE-42
    pub fn due<'a>(
        &mut self,
        recorded: &BTreeSet<String>,
        missed: impl Iterator<Item = &'a str>,
        now: Instant,
    ) -> BTreeSet<String> {
        self.checked.retain(|uid, _| recorded.contains(uid));
        let mut due: BTreeSet<_> = missed
            .filter(|uid| recorded.contains(*uid) && self.may_check(uid, now))
            .map(str::to_owned)
            .collect();
        if self.next_in_round <= now {
            self.next_in_round = now + ROUND_PAUSE + ROUND_JITTER.mul_f64(fastrand::f64());
            let next = self.next_of(recorded);
            due.extend(next.filter(|uid| self.may_check(uid, now)));
        }
        due
    }

    /// Whether the claim may be checked now: false within 30 s of its last check. If true,
    /// the claim is noted as checked.
    pub(crate) fn may_check(&mut self, uid: &str, now: Instant) -> bool {
        let last = self.checked.get(uid);
        let rests = last.is_some_and(|last| now < *last + RECHECK_PAUSE);
        if !rests {
            self.checked.insert(uid.to_owned(), now);
        }
        !rests
    }

    fn next_of(&mut self, recorded: &BTreeSet<String>) -> Option<String> {
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let next = recorded.range(after).next().or_else(|| recorded.first())?;
        self.last.clone_from(next);
        Some(next.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_records(uids: &[&str]) -> BTreeSet<String> {
        uids.iter().map(|uid| (*uid).to_owned()).collect()
    }

    /// The checks of a day, as seconds after the start and UID.
    fn a_day(recorded: &BTreeSet<String>) -> Vec<(u64, String)> {
        let start = Instant::now();
        let mut schedule = CheckSchedule::new(start);
        let mut checks = Vec::new();
        loop {
            let now = schedule.next(std::iter::empty());
            let at = (now - start).as_secs();
            if at > 24 * 60 * 60 {
                return checks;
            }
            for uid in schedule.due(recorded, std::iter::empty(), now) {
                checks.push((at, uid));
            }
        }
    }

    #[test]
    fn an_idle_node_checks_one_record_in_ten_minutes_and_every_record_in_turn() {
        let recorded = mk_records(&["a", "b", "c"]);
        let checks = a_day(&recorded);
        assert!(checks[0].0 < ROUND_PAUSE.as_secs());
        let pauses: Vec<_> = checks.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert!(
            pauses.iter().all(|pause| (600..=720).contains(pause)),
            "{pauses:?}"
        );
        let three: BTreeSet<_> = checks[..3].iter().map(|(_, uid)| uid.clone()).collect();
        assert_eq!(three, recorded);
        assert!(
            checks[3..]
                .iter()
                .zip(&checks)
                .all(|(later, earlier)| later.1 == earlier.1)
        );
    }

    #[test]
    fn nodes_that_start_together_check_at_different_times() {
        let recorded = mk_records(&["a"]);
        let first: BTreeSet<_> = (0..20).map(|_| a_day(&recorded)[0].0).collect();
        assert!(first.len() > 10, "{first:?}");
        let tenth: BTreeSet<_> = (0..20).map(|_| a_day(&recorded)[9].0).collect();
        assert!(tenth.len() > 10, "{tenth:?}");
    }

    #[test]
    fn a_missing_claim_is_checked_every_half_minute_however_often_it_blocks() {
        let recorded = mk_records(&["a", "b"]);
        let start = Instant::now();
        let mut schedule = CheckSchedule::new(start);
        schedule.next_in_round = start + Duration::from_secs(3600);
        let mut checks = Vec::new();
        for second in 0..=150 {
            let now = start + Duration::from_secs(second);
            if schedule.may_check("a", now) {
                checks.push(second);
            }
            assert!(schedule.due(&recorded, ["a"].into_iter(), now).is_empty());
        }
        assert_eq!(checks, [0, 30, 60, 90, 120, 150]);
        let next = schedule.next(["a"].into_iter());
        assert_eq!(next, start + Duration::from_secs(180));
        let due = schedule.due(&recorded, ["a"].into_iter(), next);
        assert_eq!(due, mk_records(&["a"]));
    }
}
