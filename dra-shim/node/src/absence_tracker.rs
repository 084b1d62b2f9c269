//! Decides when a deleted claim may be unprepared without a call by kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long every check must find a claim absent before it is unprepared. This
/// leaves kubelet enough time: its loop over deleted pods takes up to 60 s to notice
/// and 45 s for the call, and a restart may repeat the call (45 s more).
pub const ABSENT_FOR: Duration = Duration::from_secs(60 + 45 + 45);

/// The API server's answer about a recorded claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A claim with this UID exists and is allocated to this node.
    Present,
    /// The API server answered, and the claim does not exist, is not allocated, or
    /// is allocated elsewhere.
    Absent,
    /// The API server did not answer or cannot be reached.
    Unknown,
}

/// Tracks since when recorded claims are absent from the API server, by a monotonic
/// clock. Keep one for the life of the process: a new one restarts every wait.
#[derive(Debug, Default)]
pub struct AbsenceTracker {
    /// The claims that were absent since they were last present. `None`: the last
    /// check had no answer, so the wait has not restarted.
    missed: BTreeMap<String, Option<Instant>>,
}

impl AbsenceTracker {
    /// Adds a check of the claim `uid` at `now`. Returns true if the claim was absent
    /// in every check for [`ABSENT_FOR`]. A check without an answer proves nothing:
    /// the wait restarts with the next check that finds the claim absent.
    // req: NODE-29
    pub fn observe(&mut self, uid: &str, presence: Presence, now: Instant) -> bool {
        match presence {
            Presence::Present => {
                self.missed.remove(uid);
                false
            }
            Presence::Unknown => {
                if let Some(since) = self.missed.get_mut(uid) {
                    *since = None;
                }
                false
            }
            Presence::Absent => {
                let since = self.missed.entry(uid.to_owned()).or_default();
                let since = *since.get_or_insert(now);
                now.saturating_duration_since(since) >= ABSENT_FOR
            }
        }
    }

    /// The claims that were absent in a check and not present since: check them
    /// again soon.
    pub fn missed(&self) -> impl Iterator<Item = &str> {
        self.missed.keys().map(String::as_str)
    }

    /// Removes the claims that have no record any more.
    pub fn keep_only(&mut self, recorded: &BTreeSet<String>) {
        self.missed.retain(|uid, _| recorded.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of each check of one claim, as seconds and answer.
    fn observe(checks: &[(u64, Presence)]) -> Vec<bool> {
        let mut absences = AbsenceTracker::default();
        let start = Instant::now();
        checks
            .iter()
            .map(|(at, presence)| {
                absences.observe("claim", *presence, start + Duration::from_secs(*at))
            })
            .collect()
    }

    // req: NODE-29
    #[test]
    fn a_claim_that_is_absent_in_every_check_for_the_whole_time_is_unprepared() {
        let checks = [0, 30, 149, 150, 151].map(|at| (at, Presence::Absent));
        assert_eq!(observe(&checks), [false, false, false, true, true]);
    }

    // req: NODE-29
    #[test]
    fn an_api_error_or_one_sighting_restarts_the_wait() {
        for interruption in [Presence::Unknown, Presence::Present] {
            let checks = [
                (0, Presence::Absent),
                (100, interruption),
                (160, Presence::Absent),
                (309, Presence::Absent),
                (310, Presence::Absent),
            ];
            assert_eq!(
                observe(&checks),
                [false, false, false, false, true],
                "{interruption:?}"
            );
        }
    }

    #[test]
    fn an_absent_claim_is_checked_again_until_it_is_present_or_its_record_is_removed() {
        let mut absences = AbsenceTracker::default();
        let now = Instant::now();
        for uid in ["back", "silent", "gone"] {
            absences.observe(uid, Presence::Absent, now);
        }
        absences.observe("never-missed", Presence::Unknown, now);
        absences.observe("back", Presence::Present, now);
        absences.observe("silent", Presence::Unknown, now);
        assert_eq!(absences.missed().collect::<Vec<_>>(), ["gone", "silent"]);
        absences.keep_only(&BTreeSet::from(["silent".to_owned()]));
        assert_eq!(absences.missed().collect::<Vec<_>>(), ["silent"]);
    }
}
