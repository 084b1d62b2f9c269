//! A list of channels, `0,3-7`.

use std::str::FromStr;

use imex_cdi::ChannelId;

/// The channels to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Channels {
    All,
    /// Ascending, each once.
    List(Vec<ChannelId>),
}

// === impl Channels ===

impl FromStr for Channels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let mut ids = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| {
                let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
                let number = digits.parse::<u32>().ok().filter(|_| all_digits);
                number.ok_or_else(|| {
                    format!("{part:?} is not a channel number or a range such as 3-7")
                })
            };
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(format!("the range {part} ends before it begins"));
            }
            // Before the range is expanded, which may be very long.
            ChannelId::new(last).map_err(|_| {
                let limit = ChannelId::LIMIT;
                format!("channel {last} is not below {limit}, the highest possible channel count")
            })?;
            ids.extend((first..=last).filter_map(|id| ChannelId::new(id).ok()));
        }
        ids.sort();
        ids.dedup();
        Ok(Self::List(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<u32> {
        match text.parse().unwrap() {
            Channels::List(ids) => ids.into_iter().map(ChannelId::get).collect(),
            Channels::All => panic!("{text} is not all"),
        }
    }

    #[test]
    fn channels_are_numbers_and_ranges_each_once_and_in_order() {
        assert_eq!(ids("0"), [0]);
        assert_eq!(ids("7,0,3-5,4"), [0, 3, 4, 5, 7]);
        assert_eq!(ids("1048575"), [1_048_575]);
        assert_eq!("all".parse::<Channels>().unwrap(), Channels::All);
    }

    #[test]
    fn an_error_names_what_is_not_a_channel() {
        for (text, reason) in [
            ("", "\"\" is not a channel number"),
            ("0,", "\"\" is not a channel number"),
            ("x", "\"x\" is not a channel number"),
            ("-1", "\"-1\" is not a channel number"),
            ("+1", "\"+1\" is not a channel number"),
            ("1-", "\"1-\" is not a channel number"),
            ("1-2-3", "\"1-2-3\" is not a channel number"),
            ("7-3", "the range 7-3 ends before it begins"),
            ("1048576", "channel 1048576 is not below 1048576"),
            ("0-4294967295", "channel 4294967295 is not below"),
            ("All", "\"All\" is not a channel number"),
        ] {
            let error = text.parse::<Channels>().unwrap_err();
            assert!(error.starts_with(reason), "{text:?}: {error}");
        }
    }
}
