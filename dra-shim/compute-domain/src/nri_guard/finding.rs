//! Findings of the guard about a container.

/// The finding about a container that requests channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// A claim covers every request.
    Explained,
    /// Some requests have no claim, with the sentence for the event.
    Unexplained(String),
    /// The check is not possible now, with the reason.
    Unknown(String),
}

/// The moment of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Create,
    Start,
    /// The container is running already.
    Synchronize,
}

/// What happens to a container that requests a channel without a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerOutcome {
    /// The container is running already.
    Runs,
    Refused,
    LetThrough,
    /// Refused, but the runtime starts it anyway.
    StartsAnyway,
}

// === impl Moment ===

impl Moment {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Synchronize => "synchronize",
        }
    }

    pub(super) fn action(self) -> &'static str {
        match self {
            Self::Create => "CreateContainer",
            Self::Start => "StartContainer",
            Self::Synchronize => "Synchronize",
        }
    }
}
