//! The states of a node's fabric as a watch sees them, and the one function
//! that leads from one to the next.

/// What a [`FabricWatch`](crate::FabricWatch) knows about the fabric of its node.
///
/// [`Fabric`](crate::Fabric) has the details of the last read;
/// [`GpuFabricState`](crate::GpuFabricState) is that of a single GPU.
///
/// A *final* state changes only if the host is changed. Any other may change
/// without anybody's help, and is read again sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeFabricState {
    /// The first read is under way and not overdue. Nothing is known yet, so
    /// what an earlier process published is best left alone.
    #[default]
    NotReadYet,
    /// All GPUs that name a clique name the same one, and none of them reports a
    /// problem. Final: work can be placed here.
    Clique,
    /// As [`Clique`](Self::Clique), and at least one GPU reports a problem. Final:
    /// memory can be shared, perhaps slowly or not with every peer.
    CliqueDegraded,
    /// All GPUs that name a clique name the same one, and at least one other has
    /// failed, has vanished, or has not been registered for a long time. Final, as far
    /// as the others are concerned: memory can be shared without that GPU.
    CliqueIncomplete,
    /// No GPU of this node belongs to a multi-node fabric. Final: work that
    /// needs a clique belongs on another node.
    NoClique,
    /// The GPUs do not (yet) agree on a clique: none is visible, or a
    /// registration is not completed, has failed or cannot be read and the clique
    /// of the others is not in force, or two GPUs name different cliques.
    Pending,
    /// There is no usable `libnvidia-ml.so.1`, and no read since the watch began
    /// found one or was overdue: the driver is not installed, or not yet.
    NoLibrary,
    /// There is no usable `libnvidia-ml.so.1`, but an earlier read found one, or was
    /// overdue, which a driver that hangs can cause: the driver is being replaced or
    /// was removed, perhaps under running work.
    LibraryLost,
    /// The library is there, and NVML fails as a whole.
    NvmlFailed,
    /// The read under way is overdue. What was known before is not to be trusted
    /// until it returns.
    NoAnswer,
}

/// What happened to the read that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FabricEvent {
    /// It returned GPUs of one clique, without a problem.
    ReadClique,
    /// It returned GPUs of one clique, of which at least one reports a problem.
    ReadCliqueDegraded,
    /// It returned GPUs of one clique and others that are not registered, and the
    /// clique is in force: it was before, or the others have been given their time.
    ReadCliqueIncomplete,
    /// It returned GPUs of which none belongs to a multi-node fabric.
    ReadNoClique,
    /// It returned GPUs that do not agree on a clique, or no GPU.
    ReadPending,
    /// It returned without having found a usable `libnvidia-ml.so.1`.
    ReadNoLibrary,
    /// It returned a failure of NVML as a whole, or panicked.
    ReadNvmlFailed,
    /// It has not returned in the time that the watch allows.
    Overdue,
}

// === impl NodeFabricState ===

impl NodeFabricState {
    /// Every state, in the order of their declaration.
    pub const ALL: [Self; 10] = [
        Self::NotReadYet,
        Self::Clique,
        Self::CliqueDegraded,
        Self::CliqueIncomplete,
        Self::NoClique,
        Self::Pending,
        Self::NoLibrary,
        Self::LibraryLost,
        Self::NvmlFailed,
        Self::NoAnswer,
    ];

    /// The state after `event`.
    ///
    /// Any event is possible in any state: each read begins anew. The state
    /// before it matters only to a missing library, which is one thing on a node
    /// that never had a driver and another on a node that had, or may have had, one.
    #[must_use]
    pub const fn next(self, event: FabricEvent) -> Self {
        match event {
            FabricEvent::ReadClique => Self::Clique,
            FabricEvent::ReadCliqueDegraded => Self::CliqueDegraded,
            FabricEvent::ReadCliqueIncomplete => Self::CliqueIncomplete,
            FabricEvent::ReadNoClique => Self::NoClique,
            FabricEvent::ReadPending => Self::Pending,
            FabricEvent::ReadNoLibrary => match self {
                Self::NotReadYet | Self::NoLibrary => Self::NoLibrary,
                _ => Self::LibraryLost,
            },
            FabricEvent::ReadNvmlFailed => Self::NvmlFailed,
            FabricEvent::Overdue => Self::NoAnswer,
        }
    }

    /// True if this node has a clique, with or without problems.
    pub const fn has_clique(self) -> bool {
        matches!(
            self,
            Self::Clique | Self::CliqueDegraded | Self::CliqueIncomplete
        )
    }

    /// True if only a change of the host leads to another state, the return of a
    /// GPU that was missing aside.
    pub const fn is_final(self) -> bool {
        self.has_clique() || matches!(self, Self::NoClique)
    }

    /// The state's name in tables; not a stable code, which
    /// [`Fabric::code`](crate::Fabric::code) is.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReadYet => "not read yet",
            Self::Clique => "clique",
            Self::CliqueDegraded => "clique, degraded",
            Self::CliqueIncomplete => "clique, incomplete",
            Self::NoClique => "no clique",
            Self::Pending => "pending",
            Self::NoLibrary => "no library",
            Self::LibraryLost => "library lost",
            Self::NvmlFailed => "NVML failed",
            Self::NoAnswer => "no answer",
        }
    }
}

// === impl FabricEvent ===

impl FabricEvent {
    /// Every event, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::ReadClique,
        Self::ReadCliqueDegraded,
        Self::ReadCliqueIncomplete,
        Self::ReadNoClique,
        Self::ReadPending,
        Self::ReadNoLibrary,
        Self::ReadNvmlFailed,
        Self::Overdue,
    ];

    /// The event's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadClique => "read: one clique",
            Self::ReadCliqueDegraded => "read: one clique, degraded",
            Self::ReadCliqueIncomplete => "read: one clique, incomplete",
            Self::ReadNoClique => "read: no clique",
            Self::ReadPending => "read: GPUs pending",
            Self::ReadNoLibrary => "read: no library",
            Self::ReadNvmlFailed => "read: NVML failed",
            Self::Overdue => "read overdue",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeFabricState as State;

    /// Every state with every event, and the state after it.
    fn transitions() -> impl Iterator<Item = (State, FabricEvent, State)> {
        State::ALL.into_iter().flat_map(|from| {
            FabricEvent::ALL
                .into_iter()
                .map(move |event| (from, event, from.next(event)))
        })
    }

    #[test]
    fn every_state_is_reached_and_nothing_leads_back_to_before_the_first_read() {
        for state in State::ALL {
            let reached = transitions().any(|(_, _, to)| to == state);
            assert_eq!(reached, state != State::default(), "{}", state.name());
        }
    }

    #[test]
    fn only_a_missing_library_depends_on_what_was_before() {
        for (from, event, to) in transitions() {
            let same_from_all = State::ALL.iter().all(|other| other.next(event) == to);
            assert_eq!(
                same_from_all,
                event != FabricEvent::ReadNoLibrary,
                "{}, {}",
                from.name(),
                event.name()
            );
        }
    }

    #[test]
    fn a_library_counts_as_lost_for_good_once_a_read_got_further_than_to_search_it() {
        let before = [State::NotReadYet, State::NoLibrary];
        for (from, event, to) in transitions() {
            let missing = event == FabricEvent::ReadNoLibrary;
            assert_eq!(to == State::NoLibrary, missing && before.contains(&from));
            assert_eq!(to == State::LibraryLost, missing && !before.contains(&from));
        }
    }

    #[test]
    fn any_result_ends_a_hang_and_nothing_else_begins_one() {
        for (from, event, to) in transitions() {
            let overdue = event == FabricEvent::Overdue;
            assert_eq!(to == State::NoAnswer, overdue, "{}", from.name());
        }
    }

    #[test]
    fn only_a_clique_and_definitely_none_are_final() {
        let final_states: Vec<_> = State::ALL.into_iter().filter(|it| it.is_final()).collect();
        assert_eq!(
            final_states,
            [
                State::Clique,
                State::CliqueDegraded,
                State::CliqueIncomplete,
                State::NoClique
            ]
        );
    }

    #[test]
    fn the_same_event_again_changes_nothing() {
        for (_, event, to) in transitions() {
            assert_eq!(to.next(event), to, "{}", event.name());
        }
    }

    #[test]
    fn all_lists_are_complete_and_names_are_unique() {
        let states = State::ALL.map(State::name);
        let events = FabricEvent::ALL.map(FabricEvent::name);
        for names in [&states[..], &events[..]] {
            for (index, name) in names.iter().enumerate() {
                assert!(!names[..index].contains(name), "{name}");
            }
        }
        for (index, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index, "{}", state.name());
        }
        for (index, event) in FabricEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index, "{}", event.name());
        }
    }
}
