//! Fields that are objects. What serde derives for a struct also reads an
//! array, field by field, so that `[]` would be an empty status.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a JSON object and nothing else. In Go, too, anything else is an error.
struct Object<T>(T);

struct ObjectVisitor<T>(PhantomData<T>);

/// A member that is an object. In Go a null leaves the zero value.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(optional(deserializer)?.unwrap_or_default())
}

/// A member that is an object or null.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let read: Option<Object<T>> = Option::deserialize(deserializer)?;
    Ok(read.map(|Object(value)| value))
}

/// A member that is a list of objects or null, which Go takes for empty.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(optional_list(deserializer)?.unwrap_or_default())
}

/// A list of objects whose null is kept.
pub(super) fn optional_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let read: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(read.map(|items| items.into_iter().map(|Object(value)| value).collect()))
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
