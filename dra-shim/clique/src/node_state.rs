//! The state machine of a node's fabric: its states, and the transition function.

/// The state of a node's fabric, from a [`FabricWatch`](crate::FabricWatch).
///
/// [`Fabric`](crate::Fabric) has the details of the last read;
/// [`GpuFabricState`](crate::GpuFabricState) is the state of one GPU.
///
/// A *final* state changes only if the host changes. Other states may change without
/// intervention, and are read again sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeFabricState {
    /// The first read is in progress and not overdue. Nothing is known yet, so the devices that
    /// an earlier process published should remain.
    #[default]
    NotReadYet,
    /// All GPUs with a clique have the same one, and none of them reports a problem. Final: work
    /// can be placed on this node.
    Clique,
    /// As [`Clique`](Self::Clique), but at least one GPU reports a problem. Final: memory can be
    /// shared, perhaps slowly or not with every peer.
    CliqueDegraded,
    /// All GPUs with a clique have the same one, but at least one other GPU has failed, has
    /// vanished, or has been unregistered for a long time. Final for the other GPUs: memory can
    /// be shared without that GPU.
    CliqueIncomplete,
    /// No GPU of this node belongs to a multi-node fabric. Final: work that
    /// needs a clique belongs on another node.
    NoClique,
    /// The clique is not known: no GPU is visible, two GPUs have different cliques, or a
    /// registration is incomplete, failed or unreadable while the clique of the other GPUs is
    /// not in force.
    Pending,
    /// There is no usable `libnvidia-ml.so.1`, and no read since the watch began has found one
    /// or was overdue: the driver is not installed (yet).
    NoLibrary,
    /// There is no usable `libnvidia-ml.so.1`, but an earlier read found one, or was overdue,
    /// which a hanging driver can cause. The driver is being replaced or was removed, perhaps
    /// while work was running.
    LibraryLost,
    /// The library exists, but NVML fails as a whole.
    NvmlFailed,
    /// The current read is overdue. Earlier results are not trusted until it returns.
    NoAnswer,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FabricEvent {
    /// GPUs of one clique, without a problem.
    ReadClique,
    /// GPUs of one clique, with a problem of at least one GPU.
    ReadCliqueDegraded,
    /// GPUs of one clique and unregistered GPUs. The clique is in force: it was before, or the
    /// time for the others has passed.
    ReadCliqueIncomplete,
    /// GPUs, none of which belongs to a multi-node fabric.
    ReadNoClique,
    /// GPUs that do not agree on a clique, or no GPU.
    ReadPending,
    /// No usable `libnvidia-ml.so.1`.
    ReadNoLibrary,
    /// A failure of NVML as a whole, or a panic.
    ReadNvmlFailed,
    /// No result within the timeout of the watch.
    Overdue,
}

// === impl NodeFabricState ===

impl NodeFabricState {
    /// Every state, in order of declaration.
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
    /// Any event is possible in any state: reads are independent. The previous state matters
    /// only for a missing library: a node that has (or may have) had a driver differs from a
    /// node that never had one.
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

    /// Whether this node has a clique, with or without problems.
    pub const fn has_clique(self) -> bool {
        matches!(
            self,
            Self::Clique | Self::CliqueDegraded | Self::CliqueIncomplete
        )
    }

    /// Whether only a change of the host leads to another state, except the return of a missing
    /// GPU.
    pub const fn is_final(self) -> bool {
        self.has_clique() || matches!(self, Self::NoClique)
    }

    /// The state's name in tables. Not stable, unlike [`Fabric::code`](crate::Fabric::code).
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
    /// Every event, in order of declaration.
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
            Self::ReadCliqueDegraded => "read: one clique with a GPU problem",
            Self::ReadCliqueIncomplete => "read: one clique and unregistered GPUs",
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

    /// Every state with every event, and the next state.
    fn transitions() -> impl Iterator<Item = (State, FabricEvent, State)> {
        State::ALL.into_iter().flat_map(|from| {
            FabricEvent::ALL
                .into_iter()
                .map(move |event| (from, event, from.next(event)))
        })
    }

    #[test]
    fn every_state_except_the_initial_one_is_reached() {
        for state in State::ALL {
            let reached = transitions().any(|(_, _, to)| to == state);
            assert_eq!(reached, state != State::default(), "{}", state.name());
        }
    }

    #[test]
    fn only_a_missing_library_depends_on_the_previous_state() {
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
    fn a_missing_library_is_lost_after_any_read_that_found_one_or_hung() {
        let before = [State::NotReadYet, State::NoLibrary];
        for (from, event, to) in transitions() {
            let missing = event == FabricEvent::ReadNoLibrary;
            assert_eq!(to == State::NoLibrary, missing && before.contains(&from));
            assert_eq!(to == State::LibraryLost, missing && !before.contains(&from));
        }
    }

    #[test]
    fn no_answer_follows_only_from_an_overdue_read() {
        for (from, event, to) in transitions() {
            let overdue = event == FabricEvent::Overdue;
            assert_eq!(to == State::NoAnswer, overdue, "{}", from.name());
        }
    }

    #[test]
    fn only_a_clique_and_no_clique_are_final() {
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
    fn repeating_an_event_changes_nothing() {
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
