//! The time as `nvidia-imex-ctl` prints it.

use std::time::{SystemTime, UNIX_EPOCH};

/// `M/D/YYYY HH:MM:SS.mmm`, in UTC.
pub fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, ms) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = date(seconds / 86400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{month}/{day}/{year} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

/// The Gregorian date of a day after 1970-01-01. Years begin in March here, so that a leap day is the last day of
/// its year; 400 years have 146097 days.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_match_the_calendar() {
        for (seconds, text) in [
            (0, "1/1/1970 00:00:00.000"),
            (951_827_696, "2/29/2000 12:34:56.000"),
            (1_795_622_400, "11/25/2026 16:00:00.000"),
        ] {
            assert_eq!(stamp(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
