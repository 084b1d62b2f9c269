//! Checks which types of the protocol definition are public.

use std::collections::BTreeSet;
use std::error::Error;

/// Ignores case, since prost changes it: `POSIXRlimit` is `PosixRlimit`.
fn key(name: &str) -> String {
    name.to_lowercase()
}

/// The names in the list of `pub use generated::{...}`.
fn exported() -> BTreeSet<String> {
    let source = include_str!("mod.rs");
    let (_, list) = source.split_once("pub use generated::{").unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let names = list.split(',').map(|name| key(name.trim()));
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_type_of_a_public_field_has_a_public_name() -> Result<(), Box<dyn Error>> {
    let definition = protox::compile(["proto/api.proto"], ["proto"])?;
    let exported = exported();
    let mut seen = 0;
    for message in definition.file.iter().flat_map(|file| &file.message_type) {
        if !exported.contains(&key(message.name())) {
            continue;
        }
        seen += 1;
        for field in &message.field {
            let mut path = field.type_name().rsplit('.');
            let (name, parent) = (path.next().unwrap_or_default(), path.next());
            // A nested type is in the module of its message.
            let is_nested = parent == Some(message.name());
            assert!(
                name.is_empty() || is_nested || exported.contains(&key(name)),
                "{}.{} is a {name}, which api does not export",
                message.name(),
                field.name()
            );
        }
    }
    assert!(seen > 40, "{seen} messages: the list was not parsed");
    Ok(())
}
