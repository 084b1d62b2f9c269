//! Values as Go's library reads them, where serde's derive would differ.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Go has no absent string: an empty one, null and none are the same.
pub(crate) fn non_empty<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(D::Error::custom))
        .transpose()
}

/// The longest key that YAML finds without being told where keys are (1 024
/// bytes with its quotes), so the longest that Go reads in JSON.
const KEY_LIMIT: usize = 1022;

/// A map whose repeated keys are an error, as repeated fields are.
pub(crate) fn unique_keys<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    struct UniqueKeys;

    impl<'de> Visitor<'de> for UniqueKeys {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a mapping of texts")
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
