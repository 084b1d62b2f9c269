use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ConfigError;

/// The members of one JSON object in their order, duplicates included: what a strict decoder has
/// to see and a map would hide.
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, ConfigError> {
        serde_json::from_str(json).map_err(|source| ConfigError::NotAnObject { source })
    }

    /// The text of a field: the last one wins, null is absent.
    pub(super) fn string(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        let Some((_, raw)) = self.0.iter().rev().find(|(key, _)| key == name) else {
            return Ok(None);
        };
        serde_json::from_str(raw.get()).map_err(|source| ConfigError::WrongType {
            field: name,
            source,
        })
    }

    /// The text of a field, where the empty text is absent too.
    pub(super) fn word(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        Ok(self.string(name)?.filter(|text| !text.is_empty()))
    }

    /// Refuses fields outside `known` and fields that occur twice, all of them in one error.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        let mut problems = Vec::new();
        for (key, _) in &self.0 {
            if !seen.insert(key.as_str()) {
                problems.push(format!("duplicate field {key:?}"));
            } else if !known.contains(&key.as_str()) {
                problems.push(format!("unknown field {key:?}"));
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Strict { problems })
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Members).map(Self)
    }
}
