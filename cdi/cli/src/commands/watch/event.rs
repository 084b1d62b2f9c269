//! A change, as one line of the output.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

/// Borrows what snapshots have: the first has an event for each device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Event<'a> {
    schema: Schema,
    #[serde(rename = "event")]
    pub(super) kind: EventKind,
    /// The device, file or directory.
    pub(super) subject: &'a str,
    /// The file that defines the device.
    pub(super) file: Option<&'a str>,
    pub(super) message: Option<Cow<'a, str>>,
    pub(super) fix: Option<&'a str>,
}

/// The same in every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schema;

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

impl<'a> Event<'a> {
    pub(super) fn device(kind: EventKind, device: &'a str, file: &'a str) -> Self {
        Self {
            file: Some(file),
            ..Self::new(kind, device)
        }
    }

    pub(super) fn with_message(self, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            message: Some(message.into()),
            ..self
        }
    }

    pub(super) fn with_fix(self, fix: &'a str) -> Self {
        Self {
            fix: Some(fix),
            ..self
        }
    }

    pub(super) fn new(kind: EventKind, subject: &'a str) -> Self {
        Self {
            schema: Schema,
            kind,
            subject,
            file: None,
            message: None,
            fix: None,
        }
    }
}

// === impl Schema ===

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("cdi-gen/watch/v1")
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
