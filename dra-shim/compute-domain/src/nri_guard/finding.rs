//! What the guard finds out about a container.

/// What is found out about a container that asks for channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// Every request has a claim.
    Explained,
    /// Some have none: the sentence for people.
    Unexplained(String),
    /// Why it cannot be found out now.
    Unknown(String),
}

/// When a container is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Create,
    Start,
    /// It runs already.
    Synchronize,
}

/// What becomes of a container that asks for what it has no claim for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It runs already.
    Runs,
    Refused,
    LetThrough,
    /// It is refused, and the runtime starts it all the same.
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
