//! Entries of sequences and mappings, one by one.

use std::borrow::Cow;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess};

use super::cursor::Cursor;
use super::error::{ReadError, Step};
use super::tree::{NodeId, Value, same_name};

/// Entries of a sequence, one by one.
pub(super) struct Seq<'a, 't> {
    parent: Cursor<'a, 't>,
    entries: std::iter::Enumerate<std::slice::Iter<'a, NodeId>>,
}

/// Entries of a mapping, one by one.
pub(super) struct Map<'a, 't> {
    parent: Cursor<'a, 't>,
    /// The names that a struct's fields have.
    fields: Option<&'static [&'static str]>,
    entries: std::vec::IntoIter<(NodeId, NodeId)>,
    /// A struct's fields that were there.
    seen: Vec<&'static str>,
    /// The value that is next, and its field.
    current: Option<(NodeId, Cow<'a, str>)>,
}

// === impl Seq ===

impl<'a, 't> Seq<'a, 't> {
    pub(super) fn new(parent: Cursor<'a, 't>, entries: &'a [NodeId]) -> Self {
        Self {
            parent,
            entries: entries.iter().enumerate(),
        }
    }
}

impl<'de> SeqAccess<'de> for Seq<'_, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some((index, id)) = self.entries.next() else {
            return Ok(None);
        };
        let entry = self.parent.at(*id);
        let value = seed.deserialize(entry);
        value
            .map(Some)
            .map_err(|error| error.at(entry.position()).within(Step::Entry(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        self.entries.size_hint().1
    }
}

// === impl Map ===

impl<'a, 't> Map<'a, 't> {
    /// Of a struct with `fields`, or of a map with any keys.
    pub(super) fn new(
        parent: Cursor<'a, 't>,
        fields: Option<&'static [&'static str]>,
        entries: Vec<(NodeId, NodeId)>,
    ) -> Self {
        Self {
            parent,
            fields,
            entries: entries.into_iter(),
            seen: Vec::new(),
            current: None,
        }
    }

    /// A struct's field, once.
    fn known<'de, K: DeserializeSeed<'de>>(
        &mut self,
        field: &'static str,
        seed: K,
    ) -> Result<K::Value, ReadError> {
        if self.seen.contains(&field) {
            return Err(ReadError::repeated());
        }
        self.seen.push(field);
        let name: StrDeserializer<'_, ReadError> = field.into_deserializer();
        seed.deserialize(name)
    }
}

impl<'de> MapAccess<'de> for Map<'_, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        let cursor = self.parent.at(key);
        let name = match cursor.value()? {
            Value::Scalar(scalar) => scalar.to_key(),
            _ => None,
        };
        let Some(name) = name else {
            return Err(ReadError::custom("a key is not a string").at(cursor.position()));
        };
        let mut fields = self.fields.unwrap_or_default().iter().copied();
        let known = fields.find(|field| same_name(&name, field));
        let (read, field) = if let Some(field) = known {
            (self.known(field, seed), Cow::Borrowed(field))
        } else {
            let key: StrDeserializer<'_, ReadError> = name.as_ref().into_deserializer();
            (seed.deserialize(key), name)
        };
        match read {
            Ok(read) => {
                self.current = Some((value, field));
                Ok(Some(read))
            }
            Err(error) => {
                let error = error.at(cursor.position());
                Err(error.within(Step::Field(field.into_owned())))
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some((id, field)) = self.current.take() else {
            return Err(ReadError::custom("a value was read before its key"));
        };
        let cursor = self.parent.at(id);
        let value = seed.deserialize(cursor);
        value.map_err(|error| {
            error
                .at(cursor.position())
                .within(Step::Field(field.into_owned()))
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.entries.size_hint().1
    }
}
