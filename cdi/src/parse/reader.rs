//! Reads values from a tree: null is an empty value, and a number is a text where text is expected.

use std::iter::Enumerate;
use std::slice::Iter;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::error::{ReadError, Shown};
use super::scalar;
use super::yaml::{Node, Value};

type Result<T> = std::result::Result<T, ReadError>;

impl<'de> Deserializer<'de> for &Node<'_> {
    type Error = ReadError;

    /// A text.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let truth = self.plain("false").and_then(scalar::boolean);
        visitor.visit_bool(truth.ok_or_else(|| self.is_not("true or false"))?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_i64(self.integer("a 64-bit integer")?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_u32(self.integer("a whole number from 0 to 4294967295")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.is_null() {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let entries = match &self.value {
            Value::List(entries) => entries.as_slice(),
            _ if self.is_null() => &[],
            _ => return Err(self.is_not("a list")),
        };
        visitor.visit_seq(Entries(entries.iter().enumerate()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let entries = match &self.value {
            Value::Mapping(entries) => entries.as_slice(),
            _ if self.is_null() => &[],
            _ => return Err(self.is_not("a mapping")),
        };
        let mut fields = Fields {
            rest: entries.iter(),
            current: None,
        };
        let read = visitor.visit_map(&mut fields);
        read.map_err(|error| match fields.current {
            Some((key, _)) => error.within(key.position, &key.step()),
            None => error,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

// === impl Node ===

impl Node<'_> {
    fn is_null(&self) -> bool {
        matches!(&self.value, Value::Plain(text)
            if matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The scalar, if it has no quotes; `zero` for null.
    fn plain<'a>(&'a self, zero: &'a str) -> Option<&'a str> {
        match &self.value {
            _ if self.is_null() => Some(zero),
            Value::Plain(text) => Some(text),
            _ => None,
        }
    }

    fn integer<T: TryFrom<i64>>(&self, expected: &str) -> Result<T> {
        let number = self.plain("0").and_then(scalar::integer);
        let number = number.and_then(|number| number.try_into().ok());
        number.ok_or_else(|| self.is_not(expected))
    }

    pub(super) fn text(&self) -> Result<&str> {
        match &self.value {
            _ if self.is_null() => Ok(""),
            Value::Plain(text) if scalar::is_ambiguous(text) => {
                Err(self.is_not("a text to all YAML readers: put the value in quotes"))
            }
            Value::Plain(text) | Value::Text(text) => Ok(text),
            _ => Err(self.is_not("a text")),
        }
    }

    fn is_not(&self, expected: &str) -> ReadError {
        let found = match &self.value {
            Value::Plain(text) => format!("`{}`", Shown(text)),
            Value::Text(text) => format!("the text `{}`", Shown(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        };
        ReadError::custom(format_args!("{found} is not {expected}"))
    }

    /// This key as a step of a path.
    fn step(&self) -> String {
        let name = self.text().map(|name| Shown(name).to_string());
        name.unwrap_or_default()
    }
}

/// Entries of a list, one by one.
struct Entries<'a, 't>(Enumerate<Iter<'a, Node<'t>>>);

impl<'de> SeqAccess<'de> for Entries<'_, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some((index, entry)) = self.0.next() else {
            return Ok(None);
        };
        let value = seed.deserialize(entry).map(Some);
        value.map_err(|error| error.within(entry.position, &format!("[{index}]")))
    }
}

/// Fields of a mapping, one by one.
struct Fields<'a, 't> {
    rest: Iter<'a, (Node<'t>, Node<'t>)>,
    /// The field of the last key. Its value is next.
    current: Option<&'a (Node<'t>, Node<'t>)>,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.current = self.rest.next();
        match self.current {
            Some((key, _)) if key.is_null() => Err(ReadError::custom("the key is empty")),
            Some((key, _)) => seed.deserialize(key).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let Some((key, value)) = self.current.take() else {
            return Err(ReadError::custom("a value was read before its key"));
        };
        let read = seed.deserialize(value);
        read.map_err(|error| error.within(value.position, &key.step()))
    }
}
