use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use crate::gojson;

/// Foreign JSON, kept as text and compacted like in Go. It is never parsed into values,
/// so that number spellings, key order and duplicate keys stay.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Raw(Box<RawValue>);

impl Raw {
    pub(crate) fn get(&self) -> &str {
        self.0.get()
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Box::<RawValue>::deserialize(deserializer)?;
        let compact = gojson::compact(given.get());
        RawValue::from_string(compact)
            .map(Self)
            .map_err(de::Error::custom)
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}
