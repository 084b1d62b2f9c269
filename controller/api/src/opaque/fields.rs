use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::ConfigError;

/// The fields of one JSON object in their order, including duplicates, which a map would hide from strict decoding.
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, ConfigError> {
        serde_json::from_str(json).map_err(|source| ConfigError::NotAnObject { source })
    }

    /// The value of a string field. The last non-null occurrence is used, as in Go; null means absent.
    pub(super) fn string(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        let is_set = |key: &str, raw: &RawValue| key == name && raw.get() != "null";
        let Some((_, raw)) = self.0.iter().rev().find(|(key, raw)| is_set(key, raw)) else {
            return Ok(None);
        };
        serde_json::from_str(raw.get()).map_err(|source| ConfigError::WrongType {
            field: name,
            source,
        })
    }

    /// As [`Fields::string`], but empty also means absent.
    pub(super) fn non_empty_string(
        &self,
        name: &'static str,
    ) -> Result<Option<String>, ConfigError> {
        Ok(self.string(name)?.filter(|text| !text.is_empty()))
    }

    /// Fails if there are fields outside `known`, or duplicates. The error names all of them.
    pub(super) fn deny_unknown(&self, known: &[&str]) -> Result<(), ConfigError> {
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
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(FieldsVisitor).map(Self)
    }
}
