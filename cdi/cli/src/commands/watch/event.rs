//! A change, as one line of the output.

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    schema: &'static str,
    #[serde(rename = "event")]
    pub(super) kind: EventKind,
    /// The device, file or directory.
    pub(super) subject: String,
    /// The file that defines the device.
    pub(super) file: Option<String>,
    pub(super) message: Option<String>,
    pub(super) fix: Option<String>,
}

/// In the order in which the events of one snapshot are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EventKind {
    Directory,
    Remove,
    Settled,
    Add,
    Change,
    Conflict,
    Refused,
    Stale,
}

// === impl Event ===

impl Event {
    pub(super) fn device(kind: EventKind, device: &str, file: &str) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..Self::new(kind, device)
        }
    }

    pub(super) fn with_message(self, message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..self
        }
    }

    pub(super) fn with_fix(self, fix: &str) -> Self {
        Self {
            fix: Some(fix.to_owned()),
            ..self
        }
    }

    pub(super) fn new(kind: EventKind, subject: &str) -> Self {
        Self {
            schema: "cdi-gen/watch/v1",
            kind,
            subject: subject.to_owned(),
            file: None,
            message: None,
            fix: None,
        }
    }
}

// === impl EventKind ===

impl EventKind {
    /// As in the JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Remove => "remove",
            Self::Settled => "settled",
            Self::Add => "add",
            Self::Change => "change",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Stale => "stale",
        }
    }
}
