//! The events of one moment, for people: what one thing caused is on one line.
//!
//! | cause | what it brings about |
//! |---|---|
//! | a directory that is not read any more | its files' devices are removed |
//! | a file that is refused | its devices are removed |
//! | a file that is written or removed | devices are added, changed, removed |
//! | two files that define the same devices | the devices are removed, and in conflict |
//! | a file that is put right | its conflict or refusal is settled, and devices are added |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use host_doctor::and_more;

use super::event::{Event, EventKind};

/// As wide as the longest word and a space.
const WIDTH: usize = 10;

/// Devices with one cause: a kind of event, and the file or the message of it.
type Groups<'a> = BTreeMap<(EventKind, &'a str), Vec<&'a str>>;

/// One line for each cause, in the order of the events.
pub(super) fn lines(events: &[Event<'_>]) -> Vec<String> {
    let conflicts = subjects(events, EventKind::Conflict);
    let added = added(events);
    let mut groups = Groups::new();
    let (mut causes, mut lines) = (Vec::new(), Vec::new());
    for event in events {
        let cause = match event.kind {
            EventKind::Remove if conflicts.contains(event.subject) => continue,
            EventKind::Settled if added.contains(event.subject) => continue,
            EventKind::Add | EventKind::Change | EventKind::Remove => {
                event.file.unwrap_or_default()
            }
            EventKind::Conflict | EventKind::Settled => of_conflict(event),
            EventKind::Directory | EventKind::Refused | EventKind::Stale => {
                causes.push(event);
                continue;
            }
        };
        let devices = groups.entry((event.kind, cause)).or_default();
        devices.push(event.subject);
    }
    for event in causes {
        let lost = take_lost(&mut groups, event);
        lines.push((event.kind, of_cause(event, &lost)));
    }
    for ((kind, cause), devices) in &groups {
        lines.push((*kind, of_devices(*kind, cause, devices)));
    }
    lines.sort();
    let line = |(kind, text): (EventKind, String)| format!("{:WIDTH$}{text}", kind.as_str());
    lines.into_iter().map(line).collect()
}

fn subjects<'a>(events: &[Event<'a>], kind: EventKind) -> BTreeSet<&'a str> {
    let of_kind = events.iter().filter(|event| event.kind == kind);
    of_kind.map(|event| event.subject).collect()
}

/// The devices that resolve now, and their files, if anything is settled by that.
fn added<'a>(events: &[Event<'a>]) -> BTreeSet<&'a str> {
    if events.iter().all(|event| event.kind != EventKind::Settled) {
        return BTreeSet::new();
    }
    let added = events.iter().filter(|event| event.kind == EventKind::Add);
    let both = added.flat_map(|event| [Some(event.subject), event.file]);
    both.flatten().collect()
}

/// The files of a conflict, which stand after the device in its message; what has been
/// settled.
fn of_conflict<'a>(event: &'a Event<'_>) -> &'a str {
    let message = event.message.as_deref().unwrap_or_default();
    match (event.kind, message.split_once(event.subject)) {
        (EventKind::Conflict, Some((_, files))) => files.trim_start(),
        _ => message,
    }
}

/// Takes the devices that are gone because of a directory or a refused file.
fn take_lost<'a>(groups: &mut Groups<'a>, cause: &Event<'_>) -> Vec<&'a str> {
    let is_lost = |file: &str| match cause.kind {
        EventKind::Refused => file == cause.subject,
        EventKind::Directory => Path::new(file).parent() == Some(Path::new(cause.subject)),
        _ => false,
    };
    let mut lost = Vec::new();
    groups.retain(|(kind, file), devices| {
        let is_kept = *kind != EventKind::Remove || !is_lost(file);
        if !is_kept {
            lost.append(devices);
        }
        is_kept
    });
    lost
}

fn of_cause(event: &Event<'_>, lost: &[&str]) -> String {
    let message = event.message.as_deref().unwrap_or_default();
    // The message of a refused file begins with its name.
    let named = format!("CDI spec {} ", event.subject);
    let message = message.strip_prefix(&named).unwrap_or(message);
    let lost = lost.split_first();
    let lost = lost.map(|(first, others)| format!("without {first}{}", and_more(others.len())));
    let parts = [Some(message.to_owned()), lost, event.fix.map(str::to_owned)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{}: {}", event.subject, parts.join("; "))
}

fn of_devices(kind: EventKind, cause: &str, devices: &[&str]) -> String {
    let Some((first, others)) = devices.split_first() else {
        return cause.to_owned();
    };
    let devices = format!("{first}{}", and_more(others.len()));
    match kind {
        EventKind::Conflict | EventKind::Settled => format!("{devices}: {cause}"),
        _ => format!("{cause}: {devices}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_is_one_line_however_many_devices_it_has() {
        let events = [
            Event::device(EventKind::Add, "a/b=0", "/etc/cdi/a.json"),
            Event::device(EventKind::Add, "a/b=1", "/etc/cdi/a.json"),
            Event::device(EventKind::Add, "a/c=0", "/etc/cdi/c.json"),
        ];
        assert_eq!(
            lines(&events),
            [
                "add       /etc/cdi/a.json: a/b=0 (and 1 more like it)",
                "add       /etc/cdi/c.json: a/c=0"
            ]
        );
    }

    #[test]
    fn a_refused_file_takes_its_devices_with_it() {
        let events = [
            Event::device(EventKind::Remove, "a/b=0", "/etc/cdi/a.json"),
            Event::device(EventKind::Remove, "a/c=0", "/etc/cdi/c.json"),
            Event::new(EventKind::Refused, "/etc/cdi/a.json")
                .with_message("CDI spec /etc/cdi/a.json is not valid")
                .with_fix("correct it"),
        ];
        assert_eq!(
            lines(&events),
            [
                "remove    /etc/cdi/c.json: a/c=0",
                "refused   /etc/cdi/a.json: is not valid; without a/b=0; correct it"
            ]
        );
    }

    #[test]
    fn a_directory_that_is_gone_takes_the_devices_of_its_files_with_it() {
        let events = [
            Event::new(EventKind::Directory, "/run/cdi").with_message("it does not exist"),
            Event::device(EventKind::Remove, "a/b=0", "/run/cdi/a.json"),
            Event::device(EventKind::Remove, "a/c=0", "/etc/cdi/c.json"),
        ];
        assert_eq!(
            lines(&events),
            [
                "directory /run/cdi: it does not exist; without a/b=0",
                "remove    /etc/cdi/c.json: a/c=0"
            ]
        );
    }

    #[test]
    fn what_is_put_right_is_told_once() {
        let events = [
            Event::new(EventKind::Settled, "a/b=0").with_message("no longer: conflict"),
            Event::new(EventKind::Settled, "/etc/cdi/a.json").with_message("no longer: refused"),
            Event::new(EventKind::Settled, "/etc/cdi/b.json").with_message("no longer: refused"),
            Event::device(EventKind::Add, "a/b=0", "/etc/cdi/a.json"),
        ];
        assert_eq!(
            lines(&events),
            [
                "settled   /etc/cdi/b.json: no longer: refused",
                "add       /etc/cdi/a.json: a/b=0"
            ]
        );
    }

    #[test]
    fn devices_in_conflict_are_not_told_as_removed_as_well() {
        let conflict = |name: &'static str| {
            Event::new(EventKind::Conflict, name)
                .with_message(format!("CDI device {name} is defined in x, y"))
        };
        let events = [
            Event::device(EventKind::Remove, "a/b=0", "/etc/cdi/a.json"),
            Event::device(EventKind::Remove, "a/b=1", "/etc/cdi/a.json"),
            conflict("a/b=0"),
            conflict("a/b=1"),
        ];
        assert_eq!(
            lines(&events),
            ["conflict  a/b=0 (and 1 more like it): is defined in x, y"]
        );
    }
}
