use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time as `metav1.Time` keeps it: RFC 3339, UTC, whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seconds(Timestamp);

/// Go's zero time, which it writes as `null`.
const GO_ZERO: &str = "0001-01-01T00:00:00Z";

impl Seconds {
    /// Drops the fraction, towards the past.
    pub(crate) fn floor(time: Timestamp) -> Self {
        let second = time.as_nanosecond().div_euclid(1_000_000_000);
        // The floor of a valid time is valid but for the very first second.
        let whole = i64::try_from(second)
            .ok()
            .and_then(|s| Timestamp::from_second(s).ok());
        Self(whole.unwrap_or(Timestamp::MIN))
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Reads a time, `null` or Go's zero time.
pub(crate) fn optional_seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Seconds>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(text) if text == GO_ZERO => Ok(None),
        Some(text) => {
            let time: Timestamp = text.parse().map_err(de::Error::custom)?;
            Ok(Some(Seconds::floor(time)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_loses_its_fraction_and_its_zone() {
        let time: Timestamp = "2026-08-07T12:34:56.789+02:00".parse().unwrap();
        let text = serde_json::to_string(&Seconds::floor(time)).unwrap();
        assert_eq!(text, "\"2026-08-07T10:34:56Z\"");
    }

    #[test]
    fn a_time_before_the_epoch_is_floored_too() {
        let time: Timestamp = "1969-12-31T23:59:58.5Z".parse().unwrap();
        let text = serde_json::to_string(&Seconds::floor(time)).unwrap();
        assert_eq!(text, "\"1969-12-31T23:59:58Z\"");
    }
}
