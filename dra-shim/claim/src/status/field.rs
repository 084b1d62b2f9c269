//! Field types that read JSON like Go: null gives the zero value, and anything but an
//! object in its place is an error.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A value; null is read as the zero value.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct OrZero<T>(T);

/// An object. A derived struct would also read an array, field by field, so that `[]`
/// would be an empty status.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Object<T>(T);

/// An object or null.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Optional<T>(Option<T>);

/// A list of objects; null is read as the empty list.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct List<T>(Vec<T>);

/// A list of objects that Go never omits: null and empty are written differently but
/// compare equal.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(super) struct NullableList<T>(Option<Vec<T>>);

struct ObjectVisitor<T>(PhantomData<T>);

/// For `skip_serializing_if`: Go's `omitempty`.
pub(super) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// === impl OrZero ===

impl<T> Deref for OrZero<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for OrZero<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Option::deserialize(deserializer)?;
        Ok(Self(read.unwrap_or_default()))
    }
}

// === impl Object ===

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

// === impl Optional ===

impl<T> Deref for Optional<T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Optional<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read: Option<Object<T>> = Option::deserialize(deserializer)?;
        Ok(Self(read.map(|Object(value)| value)))
    }
}

// === impl List ===

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NullableList(read) = NullableList::deserialize(deserializer)?;
        Ok(Self(read.unwrap_or_default()))
    }
}

// === impl NullableList ===

impl<T> NullableList<T> {
    pub(super) fn items(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NullableList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
        let values = |items: Vec<Object<T>>| items.into_iter().map(|Object(value)| value).collect();
        Ok(Self(read.map(values)))
    }
}

impl<T: PartialEq> PartialEq for NullableList<T> {
    // req: CKPT-17
    fn eq(&self, other: &Self) -> bool {
        self.items() == other.items()
    }
}
