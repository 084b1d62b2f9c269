/// The type of an event: `Warning` if the user or administrator should act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EventType {
    Normal,
    Warning,
}

impl EventType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
