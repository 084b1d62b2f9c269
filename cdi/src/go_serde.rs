//! Reading and writing the model as Go's library does, where serde's derive would
//! differ.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

/// The longest key, in bytes, that YAML reads without an explicit `?` before it
/// (1 024 with its quotes), so the longest that Go reads in JSON.
pub(crate) const KEY_LIMIT: usize = 1022;

/// Whether a field is omitted from the JSON, as by Go's `omitempty`: an absent field
/// is read as the default, so the default is written as an absent field.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Like [`is_default`], for strings: Go does not distinguish empty from absent.
#[expect(
    clippy::ref_option,
    reason = "serde calls skip_serializing_if functions with a reference to the field"
)]
pub(crate) fn is_unset(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

/// Parses a string; an empty one and null are `None`.
pub(crate) fn text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(D::Error::custom))
        .transpose()
}

/// Reads a list into no more memory than its entries need. Otherwise a list in JSON reserves space
/// for four entries or more, and most lists of a spec have one.
pub(crate) fn exact<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let mut list = Vec::deserialize(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

/// Reads a map; repeated keys are an error, as repeated fields are.
pub(crate) fn unique_keys<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    struct UniqueKeys;

    impl<'de> Visitor<'de> for UniqueKeys {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a mapping of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = entries.next_entry::<String, String>()? {
                if key.len() > KEY_LIMIT {
                    let reason = format_args!("a key is longer than {KEY_LIMIT} bytes");
                    return Err(A::Error::custom(reason));
                }
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(UniqueKeys)
}

/// Implements serde's traits for structs so that they are read only from mappings, as
/// by Go: serde's derive would also accept a sequence of the fields' values. `$type`
/// derives with `remote = "Self"`, which generates functions in place of the traits'
/// implementations.
macro_rules! mapping_only {
    ($($type:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$type>::deserialize(crate::go_serde::MappingOnly(deserializer))
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$type>::serialize(self, serializer)
            }
        }
    )+};
}
pub(crate) use mapping_only;

/// Around a deserializer: reads structs only from mappings. Around a visitor: refuses everything
/// else.
pub(crate) struct MappingOnly<T>(pub(crate) T);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MappingOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(MappingOnly(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_struct(name, fields, MappingOnly(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
        ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for MappingOnly<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(entries)
    }
}
