//! JSON objects as the text of their members, without building values.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One member of an object, as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    /// With its quotes and escapes.
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

/// The members of an object, in the text's order.
#[derive(Debug, Clone, Default)]
pub(super) struct Object<'a>(pub(super) Vec<Member<'a>>);

struct Members;

// === impl Object ===

impl<'a> Object<'a> {
    /// The members of `text`; `None` if it is no object.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let object = reader.deserialize_map(Members).ok()?;
        reader.end().ok()?;
        Some(object)
    }

    /// The value of the first member with this name, spelled without escapes.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|member| is_key(member.key, name));
        found.map(|member| member.value)
    }
}

/// Whether a key (a JSON string) is `name`, spelled without escapes.
pub(super) fn is_key(key: &str, name: &str) -> bool {
    unquoted(key) == name
}

/// A key without its quotes.
pub(super) fn unquoted(key: &str) -> &str {
    let inner = key.strip_prefix('"').unwrap_or(key);
    inner.strip_suffix('"').unwrap_or(inner)
}

// === impl Members ===

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let (key, value) = (key.get(), value.get());
            members.push(Member { key, value });
        }
        Ok(Object(members))
    }
}
