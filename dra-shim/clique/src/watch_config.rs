//! How often a watch reads, when it reports a read as hung, and how long GPUs that
//! are not registered hold back the clique of the others.

use std::time::Duration;

use crate::node_state::NodeFabricState;

/// How often a [`FabricWatch`](crate::FabricWatch) reads, when it reports a read as
/// hung, and how long it waits for GPUs that are not registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchConfig {
    pub(crate) pending_pause: Pause,
    pub(crate) final_pause: Pause,
    pub(crate) hung_after: Duration,
    pub(crate) failed_for: Duration,
    pub(crate) registering_for: Duration,
}

/// The time between two reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    /// If somebody asks for a read.
    pub(crate) shortest: Duration,
    /// If nobody does.
    pub(crate) longest: Duration,
}

/// A pause that grows is this part of the time since the last change: whatever
/// changes next is noticed late by at most a tenth of the time that it took.
const PART: u32 = 10;

impl Default for WatchConfig {
    /// Final states every 5 minutes, and every minute if asked; the others every
    /// second after a change, growing to every 30 s; hung after 10 s.
    ///
    /// A read is `3 + 4 * GPUs` calls of NVML. Where the persistence daemon runs, as it
    /// has to on hosts with an NVLink fabric, they take milliseconds; where nobody
    /// else holds the GPUs open, each read initialises them, which takes seconds. Every
    /// 5 minutes keeps even a read of 3 s at 1 % of the time.
    ///
    /// A GPU that has failed is given 30 s: a driver that is still being loaded may
    /// answer with errors. One that is being registered is given 5 minutes from the
    /// last registration of another: long enough for a fabric manager to be restarted.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            pending_pause: Pause {
                shortest: seconds(1),
                longest: seconds(30),
            },
            final_pause: Pause {
                shortest: seconds(60),
                longest: seconds(300),
            },
            hung_after: seconds(10),
            failed_for: seconds(30),
            registering_for: seconds(300),
        }
    }
}

impl WatchConfig {
    /// The pause between two reads unless the state
    /// [is final](crate::NodeFabricState::is_final): `shortest` after a change and
    /// whenever [a read is asked for](crate::FabricWatch::read_soon), and a tenth of the
    /// time since the last change up to `longest`. A short one notices a recovery
    /// early; a long one opens fewer NVML sessions.
    #[must_use]
    pub fn pending_pause(self, shortest: Duration, longest: Duration) -> Self {
        Self {
            pending_pause: Pause { shortest, longest },
            ..self
        }
    }

    /// The pause between two reads once the state is final, which is how late a lost
    /// GPU or a moved partition may be noticed: `longest`, and `shortest` if
    /// [a read is asked for](crate::FabricWatch::read_soon).
    ///
    /// While GPUs are missing from the clique, it grows up to `longest` as that of
    /// states that are not final.
    #[must_use]
    pub fn final_pause(self, shortest: Duration, longest: Duration) -> Self {
        Self {
            final_pause: Pause { shortest, longest },
            ..self
        }
    }

    /// How long a read may take before it is reported as
    /// [`Fabric::NoAnswer`](crate::Fabric::NoAnswer).
    #[must_use]
    pub fn hung_after(self, limit: Duration) -> Self {
        Self {
            hung_after: limit,
            ..self
        }
    }

    /// How long GPUs that have failed hold back the clique of the others, if that was
    /// not in force before.
    #[must_use]
    pub fn failed_for(self, limit: Duration) -> Self {
        Self {
            failed_for: limit,
            ..self
        }
    }

    /// How long GPUs whose registration may yet be completed hold back the clique of
    /// the others, if that was not in force before, from the last registration on.
    #[must_use]
    pub fn registering_for(self, limit: Duration) -> Self {
        Self {
            registering_for: limit,
            ..self
        }
    }

    /// The shortest pause in any state.
    pub(crate) fn shortest_pause(&self) -> Duration {
        self.pending_pause.shortest.min(self.final_pause.shortest)
    }

    /// The pause after a read in `state`, which began `unchanged` ago.
    pub(crate) fn pause(&self, state: NodeFabricState, unchanged: Duration) -> Pause {
        let Pause { shortest, longest } = self.pending_pause;
        let growing = (unchanged / PART).max(shortest);
        match state {
            NodeFabricState::Clique
            | NodeFabricState::CliqueDegraded
            | NodeFabricState::NoClique => self.final_pause,
            NodeFabricState::CliqueIncomplete => Pause {
                shortest: self.final_pause.shortest,
                longest: growing.min(self.final_pause.longest),
            },
            NodeFabricState::NotReadYet
            | NodeFabricState::Pending
            | NodeFabricState::NoLibrary
            | NodeFabricState::LibraryLost
            | NodeFabricState::NvmlFailed
            | NodeFabricState::NoAnswer => Pause {
                shortest,
                longest: growing.min(longest),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_good_clique_is_read_every_five_minutes_and_a_transition_every_second_at_first() {
        let config = WatchConfig::default();
        for state in NodeFabricState::ALL {
            let is_steady = state.is_final() && state != NodeFabricState::CliqueIncomplete;
            let at_first = if is_steady { 300 } else { 1 };
            assert_eq!(
                config.pause(state, Duration::ZERO).longest,
                at_first * SECOND,
                "{}",
                state.name()
            );
            let in_the_end = if state.is_final() { 300 } else { 30 };
            assert_eq!(
                config.pause(state, 86400 * SECOND).longest,
                in_the_end * SECOND,
                "{}",
                state.name()
            );
        }
    }

    #[test]
    fn a_read_that_is_asked_for_comes_within_a_second_unless_the_state_is_final() {
        let config = WatchConfig::default();
        for state in NodeFabricState::ALL {
            let asked = if state.is_final() { 60 } else { 1 };
            let pause = config.pause(state, 3600 * SECOND);
            assert_eq!(pause.shortest, asked * SECOND, "{}", state.name());
        }
    }

    #[test]
    fn what_changes_is_noticed_late_by_a_tenth_of_the_time_that_it_took() {
        let config = WatchConfig::default();
        for (unchanged, pause) in [(5, 1), (10, 1), (60, 6), (300, 30), (600, 30)] {
            let found = config.pause(NodeFabricState::Pending, unchanged * SECOND);
            assert_eq!(found.longest, pause * SECOND, "after {unchanged} s");
        }
    }
}
