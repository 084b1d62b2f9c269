use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Go's `metav1.Time`: RFC 3339, UTC, whole seconds, years from 0 on like in Go. The
/// last day of the year 9999 is out of `Timestamp`'s range and becomes the latest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaTime(Timestamp);

/// Go's zero time, which it writes as `null`.
const GO_ZERO: &str = "0001-01-01T00:00:00Z";
/// The beginning of the year 0, in seconds since 1970.
const YEAR_0: i64 = -62_167_219_200;

impl MetaTime {
    /// Rounds down to whole seconds. A time before the year 0 becomes the beginning of
    /// that year.
    pub fn from_timestamp(time: Timestamp) -> Self {
        let second = time.as_nanosecond().div_euclid(1_000_000_000);
        let whole = i64::try_from(second).unwrap_or(YEAR_0).max(YEAR_0);
        // Not below the earliest, and not above the given one.
        Self(Timestamp::from_second(whole).unwrap_or(time))
    }

    /// The time, in whole seconds.
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl Serialize for MetaTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Reads a time, `null` or Go's zero time.
pub fn optional_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MetaTime>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(text) if text == GO_ZERO => Ok(None),
        Some(text) => {
            let time = text.parse().ok().or_else(|| latest(&text));
            let not_a_time = || de::Error::custom(format_args!("{text:?} is not an RFC 3339 time"));
            Ok(Some(MetaTime::from_timestamp(time.ok_or_else(not_a_time)?)))
        }
    }
}

/// The latest `Timestamp`, for a later time that Go can read.
fn latest(text: &str) -> Option<Timestamp> {
    let (date_and_time, offset) = text.split_at_checked("9999-12-31T00:00:00".len())?;
    let date_and_time: DateTime = date_and_time.parse().ok()?;
    let fraction_or_zone = offset.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    // Check the rest after a time that is in range.
    let in_range = format!("2000-01-01T00:00:00{offset}");
    let is_late = date_and_time.year() == 9999 && !fraction_or_zone.is_empty();
    let is_valid = in_range.parse::<Timestamp>().is_ok();
    (is_late && is_valid).then_some(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_without_a_fraction() {
        let time: Timestamp = "2026-08-07T12:34:56.789+02:00".parse().unwrap();
        let text = serde_json::to_string(&MetaTime::from_timestamp(time)).unwrap();
        assert_eq!(text, "\"2026-08-07T10:34:56Z\"");
    }

    fn read(text: &str) -> Result<Option<MetaTime>, serde_json::Error> {
        let text = serde_json::to_string(text).unwrap();
        optional_time(&mut serde_json::Deserializer::from_str(&text))
    }

    #[test]
    fn a_time_out_of_range_becomes_the_latest_or_the_earliest() {
        for late in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999999999Z",
            "9999-12-31T12:00:00-08:00",
            "9999-12-30T23:00:00-12:00",
        ] {
            let read = read(late).unwrap().unwrap();
            assert_eq!(read, MetaTime::from_timestamp(Timestamp::MAX), "{late}");
        }
        let begin = "\"0000-01-01T00:00:00Z\"";
        for early in ["0000-01-01T00:00:00Z", "0000-01-01T00:00:00+14:00"] {
            let read = read(early).unwrap().unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), begin, "{early}");
        }
        let earliest = MetaTime::from_timestamp(Timestamp::MIN);
        assert_eq!(serde_json::to_string(&earliest).unwrap(), begin);
    }

    #[test]
    fn the_error_quotes_a_text_that_is_not_a_time() {
        for wrong in [
            "",
            "yesterday",
            "9999-12-31",
            "9999-12-31T23:59:59",
            "9999-12-31T23:59:61Z",
            "9999-12-32T00:00:00Z",
            "9999-12-31T23:59:59.9",
            "9999-12-31T23:59:59+9",
            "9999-12-31T23:59:59 or so",
        ] {
            let error = read(wrong).unwrap_err().to_string();
            let expected = format!("{wrong:?} is not an RFC 3339 time");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_time_before_the_epoch_is_rounded_down() {
        let time: Timestamp = "1969-12-31T23:59:58.5Z".parse().unwrap();
        let text = serde_json::to_string(&MetaTime::from_timestamp(time)).unwrap();
        assert_eq!(text, "\"1969-12-31T23:59:58Z\"");
    }
}
