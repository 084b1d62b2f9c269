//! JSON objects as the text of their members, without building values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One member of an object, as text.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// With its quotes and escapes.
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    /// The value's members, if it is an object that the caller wanted parsed.
    pub(super) members: Object<'a>,
}

/// The members of an object, in the text's order.
#[derive(Debug, Default)]
pub(super) struct Object<'a>(pub(super) Vec<Member<'a>>);

/// The names of the members that are parsed, too, by depth.
type Within = &'static [&'static [&'static str]];

/// Reads the members of an object in a text.
#[derive(Clone, Copy)]
struct Members<'a> {
    text: &'a str,
    within: Within,
}

// === impl Object ===

impl<'a> Object<'a> {
    /// The members of `text`; `None` if it is not an object.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        Self::read(text, &[])
    }

    /// Like [`parse`](Self::parse), also for the members in `within`. The text has no
    /// whitespace between its tokens.
    pub(super) fn parse_within(text: &'a str, within: Within) -> Option<Self> {
        // One pass suffices if all members in `within` are objects.
        if let Some(object) = Self::read(text, within) {
            return Some(object);
        }
        let mut object = Self::parse(text)?;
        let (names, within) = within.split_first()?;
        for member in object.0.iter_mut().filter(|it| it.is_one_of(names)) {
            member.members = Self::parse_within(member.value, within).unwrap_or_default();
        }
        Some(object)
    }

    fn read(text: &'a str, within: Within) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let object = Members { text, within }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some(object)
    }

    /// The value of the first member with this name, written without escapes.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.member(name).map(|member| member.value)
    }

    /// The first member with this name.
    pub(super) fn member(&self, name: &str) -> Option<&Member<'a>> {
        self.0.iter().find(|member| is_key(member.key, name))
    }

    /// This object's part of `text`, which has no whitespace between its tokens.
    fn text_in(&self, text: &'a str) -> Option<&'a str> {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return Some("{}");
        };
        let offset = |part: &str| part.as_ptr().addr().checked_sub(text.as_ptr().addr());
        let begin = offset(first.key)?.checked_sub(1)?;
        text.get(begin..=offset(last.value)? + last.value.len())
    }
}

// === impl Member ===

impl Member<'_> {
    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| is_key(self.key, name))
    }
}

/// Whether a key (a JSON string) is `name`, written without escapes.
pub(super) fn is_key(key: &str, name: &str) -> bool {
    unquoted(key) == name
}

/// A key without its quotes.
pub(super) fn unquoted(key: &str) -> &str {
    let inner = key.strip_prefix('"').unwrap_or(key);
    inner.strip_suffix('"').unwrap_or(inner)
}

// === impl Members ===

impl<'de> DeserializeSeed<'de> for Members<'de> {
    type Value = Object<'de>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Object<'de>, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'de> {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::default();
        while let Some(key) = map.next_key::<&RawValue>()? {
            let mut member = Member {
                key: key.get(),
                value: "",
                members: Object::default(),
            };
            match self.within.split_first() {
                Some((names, within)) if member.is_one_of(names) => {
                    member.members = map.next_value_seed(Self { within, ..self })?;
                    let value = member.members.text_in(self.text);
                    member.value = value.ok_or_else(|| A::Error::custom("not in the text"))?;
                }
                _ => member.value = map.next_value::<&RawValue>()?.get(),
            }
            object.0.push(member);
        }
        Ok(object)
    }
}
