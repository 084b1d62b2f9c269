//! When a claim that is gone may be unprepared without kubelet's call.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// For how long every check must miss a claim before it is unprepared. kubelet
/// comes first: its loop over deleted pods takes up to 60 s to notice and 45 s for
/// the call, and a restart may repeat the call (45 s more).
pub const ABSENT_FOR: SignedDuration = SignedDuration::from_secs(60 + 45 + 45);

/// What the API server answered about a claim's UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A claim with this UID exists.
    Present,
    /// The API server answered, and none does.
    Absent,
    /// The API server did not answer, or cannot be asked.
    Unknown,
}

/// Since when each recorded claim is missing from the API server. Keep one for
/// as long as the process lives: a new one starts every wait again.
#[derive(Debug, Default)]
pub struct AbsenceTracker {
    since: BTreeMap<String, Timestamp>,
}

impl AbsenceTracker {
    /// Adds one check of all records, made at `now`, and returns the UIDs that
    /// every check has missed for [`ABSENT_FOR`]. A check without an answer proves
    /// nothing: the wait for that claim starts again. Claims that are not in
    /// `check` are dropped.
    pub fn observe(&mut self, check: &BTreeMap<String, Presence>, now: Timestamp) -> Vec<String> {
        self.since
            .retain(|uid, _| check.get(uid) == Some(&Presence::Absent));
        for (uid, presence) in check {
            if *presence == Presence::Absent {
                let since = self.since.entry(uid.clone()).or_insert(now);
                // A clock that was set back must not let a claim wait for longer.
                *since = now.min(*since);
            }
        }
        self.since
            .iter()
            .filter(|(_, since)| now.duration_since(**since) >= ABSENT_FOR)
            .map(|(uid, _)| uid.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn check(presence: Presence) -> BTreeMap<String, Presence> {
        BTreeMap::from([("claim".to_owned(), presence)])
    }

    #[test]
    fn a_claim_that_every_check_misses_for_the_whole_time_is_gone() {
        let mut absences = AbsenceTracker::default();
        assert!(absences.observe(&check(Presence::Absent), at(0)).is_empty());
        assert!(
            absences
                .observe(&check(Presence::Absent), at(149))
                .is_empty()
        );
        assert_eq!(
            absences.observe(&check(Presence::Absent), at(150)),
            ["claim"]
        );
    }

    #[test]
    fn an_api_error_or_one_sighting_starts_the_wait_anew() {
        for interruption in [Presence::Unknown, Presence::Present] {
            let mut absences = AbsenceTracker::default();
            absences.observe(&check(Presence::Absent), at(0));
            absences.observe(&check(interruption), at(100));
            assert!(
                absences
                    .observe(&check(Presence::Absent), at(160))
                    .is_empty(),
                "{interruption:?}"
            );
            assert_eq!(
                absences.observe(&check(Presence::Absent), at(310)),
                ["claim"]
            );
        }
    }

    #[test]
    fn a_clock_that_is_set_back_starts_the_wait_anew() {
        let mut absences = AbsenceTracker::default();
        absences.observe(&check(Presence::Absent), at(0));
        for now in [-1000, -851] {
            let gone = absences.observe(&check(Presence::Absent), at(now));
            assert!(gone.is_empty(), "{now}");
        }
        let gone = absences.observe(&check(Presence::Absent), at(-850));
        assert_eq!(gone, ["claim"]);
    }

    #[test]
    fn a_record_that_went_meanwhile_is_not_named() {
        let mut absences = AbsenceTracker::default();
        absences.observe(&check(Presence::Absent), at(0));
        assert!(absences.observe(&BTreeMap::new(), at(200)).is_empty());
    }
}
