//! Settings of a watch: pauses between reads, and timeouts.

use std::time::Duration;

use crate::node_state::NodeFabricState;

/// Settings of a [`FabricWatch`](crate::FabricWatch): the pauses between reads, the timeout of
/// a read, and how long the watch waits for unregistered GPUs.
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
    /// The pause if a read is requested.
    pub(crate) shortest: Duration,
    /// The pause without a request.
    pub(crate) longest: Duration,
}

/// Divisor for a growing pause, which is this part of the time since the last change. So the
/// delay in noticing the next change is at most a tenth of the time until that change.
const PART: u32 = 10;

impl Default for WatchConfig {
    /// Reads final states every 5 minutes, or every minute on request. Reads other states every
    /// second after a change, growing to every 30 s. A read counts as hung after 10 s.
    ///
    /// A read makes `3 + 4 * GPUs` NVML calls. With the persistence daemon, which hosts with an
    /// NVLink fabric require, they take milliseconds. If no process holds the GPUs open, each
    /// read initialises them, which takes seconds. With a pause of 5 minutes, even a read of 3 s
    /// takes 1 % of the time.
    ///
    /// The watch waits 30 s for failed GPUs: a driver that is still being loaded may return
    /// errors. It waits 5 minutes from the last registration for GPUs that are being
    /// registered: long enough for a restart of the fabric manager.
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
    /// Sets the pause between two reads in states that are not
    /// [final](crate::NodeFabricState::is_final): `shortest` after a change and after
    /// [a request](crate::FabricWatch::read_soon), otherwise a tenth of the time since the last
    /// change, up to `longest`. A short pause notices a recovery early; a long pause opens
    /// fewer NVML sessions.
    #[must_use]
    pub fn pending_pause(self, shortest: Duration, longest: Duration) -> Self {
        Self {
            pending_pause: Pause { shortest, longest },
            ..self
        }
    }

    /// Sets the pause between two reads in final states: `longest`, or `shortest` after
    /// [a request](crate::FabricWatch::read_soon). A lost GPU or a moved partition is noticed
    /// after at most this pause.
    ///
    /// While GPUs are missing from the clique, the pause grows up to `longest`, as in states
    /// that are not final.
    #[must_use]
    pub fn final_pause(self, shortest: Duration, longest: Duration) -> Self {
        Self {
            final_pause: Pause { shortest, longest },
            ..self
        }
    }

    /// Sets the time after which a read is reported as
    /// [`Fabric::NoAnswer`](crate::Fabric::NoAnswer).
    #[must_use]
    pub fn hung_after(self, limit: Duration) -> Self {
        Self {
            hung_after: limit,
            ..self
        }
    }

    /// Sets the time for which failed GPUs delay the clique of the other GPUs, if that was not
    /// in force before.
    #[must_use]
    pub fn failed_for(self, limit: Duration) -> Self {
        Self {
            failed_for: limit,
            ..self
        }
    }

    /// Sets the time for which GPUs that are still registering delay the clique of the other
    /// GPUs, if that was not in force before. It counts from the last registration.
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

    /// The pause after a read in `state`, where the last change was `unchanged` ago.
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
    fn a_good_clique_is_read_every_five_minutes_and_other_states_every_second_at_first() {
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
    fn a_requested_read_begins_within_a_second_unless_the_state_is_final() {
        let config = WatchConfig::default();
        for state in NodeFabricState::ALL {
            let requested = if state.is_final() { 60 } else { 1 };
            let pause = config.pause(state, 3600 * SECOND);
            assert_eq!(pause.shortest, requested * SECOND, "{}", state.name());
        }
    }

    #[test]
    fn the_pause_grows_to_a_tenth_of_the_time_since_the_last_change() {
        let config = WatchConfig::default();
        for (unchanged, pause) in [(5, 1), (10, 1), (60, 6), (300, 30), (600, 30)] {
            let found = config.pause(NodeFabricState::Pending, unchanged * SECOND);
            assert_eq!(found.longest, pause * SECOND, "after {unchanged} s");
        }
    }
}
