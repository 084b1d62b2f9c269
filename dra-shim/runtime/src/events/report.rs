//! One reported event, and the Event object created from it.

use dra_common::truncated;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::event_type::EventType;
use super::recent::Key;

/// The longest note that events.k8s.io accepts, in bytes.
const MAX_NOTE_LEN: usize = 1024;

/// The longest `reportingInstance` that events.k8s.io accepts, in bytes.
const MAX_INSTANCE_LEN: usize = 128;

/// The longest name of an object, in bytes.
const MAX_NAME_LEN: usize = 253;

/// The namespace of events about objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// The reporter of events.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    controller: String,
    instance: String,
}

/// A reported event that waits to be written.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) type_: EventType,
    pub(super) object: ObjectReference,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) key: Key,
    /// The wall-clock time in the event.
    pub(super) at: Timestamp,
    /// The same time by the monotonic clock, to measure the event's age.
    pub(super) since: Instant,
}

impl Reporter {
    pub(super) fn new(controller: &str, instance: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            instance: truncated(instance, MAX_INSTANCE_LEN).to_owned(),
        }
    }
}

impl Report {
    pub(super) fn namespace(&self) -> &str {
        self.object
            .namespace
            .as_deref()
            .unwrap_or(DEFAULT_NAMESPACE)
    }

    /// The object to create. It is the same at each attempt: if the response to one is lost, the event is not
    /// written twice.
    pub(super) fn to_event(&self, reporter: &Reporter) -> Event {
        Event {
            metadata: ObjectMeta {
                namespace: Some(self.namespace().to_owned()),
                name: Some(self.event_name()),
                ..ObjectMeta::default()
            },
            type_: Some(self.type_.as_str().to_owned()),
            regarding: Some(self.object.clone()),
            reason: Some(self.reason.clone()),
            action: Some(self.action.clone()),
            note: Some(self.note.clone()),
            event_time: Some(MicroTime(self.at)),
            reporting_controller: Some(reporter.controller.clone()),
            reporting_instance: Some(reporter.instance.clone()),
            ..Event::default()
        }
    }

    /// The object's name and the time in nanoseconds, the usual naming of events.
    fn event_name(&self) -> String {
        let time = format!(".{:x}", self.at.as_nanosecond());
        let object = dns_subdomain(self.object.name.as_deref().unwrap_or_default());
        let object = match truncated(&object, MAX_NAME_LEN.saturating_sub(time.len())) {
            "" => "unnamed",
            object => object,
        };
        // A cut name may end in one of these, which is invalid.
        object.trim_end_matches(['.', '-']).to_owned() + &time
    }
}

/// A valid name for an event: the object's name, with invalid characters replaced. Some kinds allow more
/// characters, such as a role's `system:node`.
fn dns_subdomain(name: &str) -> String {
    let valid = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '.') => c,
        _ => '-',
    };
    let name: String = name.chars().map(valid).collect();
    // Parts between dots must not be empty, or begin or end with a hyphen.
    let parts = name.split('.').map(|part| part.trim_matches('-'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

/// The note, cut to the length that events.k8s.io accepts.
pub(super) fn shorten_note(note: &str) -> &str {
    truncated(note, MAX_NOTE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::recent::Recent;

    fn report(name: &str) -> Report {
        let object = ObjectReference {
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        Report {
            type_: EventType::Normal,
            key: Recent::default().key(EventType::Normal, &object, "", ""),
            object,
            reason: "Ready".to_owned(),
            action: "Reconcile".to_owned(),
            note: "all is well".to_owned(),
            at: "2026-11-22T01:02:03Z".parse().unwrap(),
            since: Instant::now(),
        }
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let long = "ä".repeat(600);
        assert_eq!(shorten_note(&long).len(), 1024);
        assert_eq!(shorten_note(&format!("x{long}")).len(), 1023);
        assert_eq!(shorten_note("short"), "short");
    }

    #[test]
    fn an_event_about_an_object_with_the_longest_name_has_a_valid_name() {
        let long = format!("{}-{}", "a".repeat(235), "b".repeat(17));
        let reporter = Reporter::new("tester", &"n".repeat(253));
        let event = report(&long).to_event(&reporter);
        let name = event.metadata.name.unwrap();
        assert!(name.len() <= 253, "{name}");
        assert!(name.starts_with("aaa") && name.contains("a.18ea"), "{name}");
        assert_eq!(event.reporting_instance.unwrap().len(), 128);
    }

    #[test]
    fn an_event_about_an_object_with_any_name_has_a_valid_name() {
        for (object, event) in [
            ("node-1.example.com", "node-1.example.com"),
            ("system:node", "system-node"),
            ("Me/0", "me-0"),
            ("a_b%c", "a-b-c"),
            (":-:.a..b:.", "a.b"),
            ("ä", "unnamed"),
            ("", "unnamed"),
        ] {
            let name = report(object).event_name();
            assert_eq!(name.rsplit_once('.').unwrap().0, event);
        }
    }

    #[test]
    fn an_event_has_the_time_of_its_report_and_the_namespace_of_its_object() {
        let event = report("node-1").to_event(&Reporter::new("tester", "node-1"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(
            event.event_time.unwrap().0.to_string(),
            "2026-11-22T01:02:03Z"
        );
        assert!(event.metadata.name.unwrap().starts_with("node-1.18ea"));
    }
}
