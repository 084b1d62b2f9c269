//! Something that happened, as one line says it.

use serde::Serialize;

const SCHEMA: &str = "cdi-gen/watch/v1";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    schema: &'static str,
    #[serde(rename = "event")]
    pub(super) what: What,
    /// The device, file or directory.
    pub(super) subject: String,
    /// That of a device.
    file: Option<String>,
    message: Option<String>,
    fix: Option<String>,
}

/// In the order in which the events of one look are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum What {
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
    pub(super) fn of_device(what: What, device: &str, file: &str) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..Self::new(what, device)
        }
    }

    pub(super) fn told(what: What, subject: &str, message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..Self::new(what, subject)
        }
    }

    pub(super) fn with_fix(self, fix: &str) -> Self {
        Self {
            fix: Some(fix.to_owned()),
            ..self
        }
    }

    fn new(what: What, subject: &str) -> Self {
        Self {
            schema: SCHEMA,
            what,
            subject: subject.to_owned(),
            file: None,
            message: None,
            fix: None,
        }
    }
}
