//! The devices of a host that names, kinds and patterns match.

use std::collections::BTreeSet;

use dra_common::error_chain;
use host_doctor::and_more;
use imex_cdi::{DeviceName, Kind, QualifiedName, Registry};

use crate::args::DeviceSelection;
use crate::host_specs::{UNKNOWN_HINT, denied};
use crate::outcome::{Failure, Outcome};

/// How many names a message lists.
const LISTED: usize = 5;

/// The names of all devices that files define, those in conflict too. A name can occur twice.
fn defined(registry: &Registry) -> impl Iterator<Item = (&Kind, &DeviceName)> {
    let files = registry.files().iter();
    let specs = files.filter_map(|file| file.spec.as_ref().ok());
    specs.flat_map(|spec| {
        let devices = spec.devices().iter();
        devices.map(|device| (spec.kind(), &device.name))
    })
}

/// All defined names, each once.
fn names(registry: &Registry) -> BTreeSet<QualifiedName> {
    let names = defined(registry);
    let names = names.map(|(kind, device)| QualifiedName::new(kind.clone(), device.clone()));
    names.collect()
}

/// Returns an error if an argument matches no device.
pub(crate) fn check(registry: &Registry, wanted: &[DeviceSelection]) -> Result<(), Failure> {
    let unmatched = wanted
        .iter()
        .filter(|wanted| !defined(registry).any(|(kind, device)| wanted.matches(kind, device)));
    let texts: Vec<&str> = unmatched.map(|wanted| wanted.text.as_str()).collect();
    let Some(first) = texts.first() else {
        return Ok(());
    };
    let all = texts.join(", ");
    let mut denied = denied(registry);
    Err(match denied.next() {
        None => {
            let message = format!("no CDI device matches {all}");
            Failure::new(Outcome::Unresolved, message).hint(hint(registry, first))
        }
        // An unreadable file may define a matching device.
        Some(error) => {
            let what = format!("cannot determine whether a CDI device matches {all}");
            let (error, more) = (error_chain(error), and_more(denied.count()));
            Failure::new(Outcome::Io, format!("{what}: {error}{more}")).hint(UNKNOWN_HINT)
        }
    })
}

/// The full names of the devices named `text`, or matched by it as a kind or pattern.
pub(crate) fn named(registry: &Registry, text: &str) -> Vec<String> {
    let names = names(registry);
    let wanted: Option<DeviceSelection> = text.parse().ok();
    let is_short = |name: &&QualifiedName| {
        let is_wanted = |wanted: &DeviceSelection| wanted.matches(name.kind(), name.device());
        name.device().as_str() == text || wanted.as_ref().is_some_and(is_wanted)
    };
    let meant = names.iter().filter(is_short);
    meant.map(ToString::to_string).collect()
}

/// The hint: what to pass instead.
fn hint(registry: &Registry, text: &str) -> String {
    let whole = named(registry, text);
    if !whole.is_empty() {
        return write_hint(&whole);
    }
    if text.contains('=') && text.parse::<QualifiedName>().is_ok() {
        return format!("run `cdi-gen why {text}` for the reason");
    }
    let names = names(registry);
    let kinds: BTreeSet<String> = names.iter().map(|name| name.kind().to_string()).collect();
    match Vec::from_iter(kinds).as_slice() {
        [] => "no valid CDI spec defines any device: run `cdi-gen list`".to_owned(),
        kinds => format!("existing kinds are {}", list(kinds, ", ")),
    }
}

/// The hint to use full names.
pub(crate) fn write_hint(names: &[String]) -> String {
    format!("use {}", list(names, " or "))
}

fn list(names: &[String], separator: &str) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(separator) + &more
}
