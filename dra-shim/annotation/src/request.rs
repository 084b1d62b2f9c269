//! What a pod asks for.

use std::collections::BTreeMap;

use imex_cdi::ChannelId;

/// The pod's annotation. Its value is the number of a channel, in decimal digits.
pub const ANNOTATION: &str = "imex-dra/channel";

/// More of a wrong value is not repeated: it may have 256 KiB, and the advice comes after it.
const SHOWN: usize = 40;

/// The annotation's value, which is not the number of a channel; its beginning, if it is long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation {ANNOTATION} is {0:?}, which is not the number of an IMEX channel; write a number such as \"3\""
)]
pub struct NotAChannel(String);

// === impl NotAChannel ===

impl NotAChannel {
    pub(crate) fn new(value: &str) -> Self {
        let mut shown: String = value.chars().take(SHOWN).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        Self(shown)
    }
}

/// The channel that a pod with these annotations asks for; `None` without the annotation.
pub fn request(annotations: &BTreeMap<String, String>) -> Result<Option<ChannelId>, NotAChannel> {
    let Some(text) = annotations.get(ANNOTATION) else {
        return Ok(None);
    };
    let number = text.parse().ok().filter(|id: &u32| id.to_string() == *text);
    let channel = number.and_then(|id| ChannelId::new(id).ok());
    match channel {
        Some(channel) => Ok(Some(channel)),
        None => Err(NotAChannel::new(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<u32> {
        let annotations = BTreeMap::from([(ANNOTATION.to_owned(), value.to_owned())]);
        request(&annotations).ok()?.map(ChannelId::get)
    }

    #[test]
    fn a_request_is_one_number_in_one_spelling() {
        assert_eq!(request(&BTreeMap::new()).unwrap(), None);
        assert_eq!((of("0"), of("2047")), (Some(0), Some(2047)));
        for bad in [
            "",
            " 1",
            "01",
            "+1",
            "-1",
            "1,2",
            "all",
            "1048576",
            "99999999999",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_value_of_256_kib_is_refused_with_its_beginning() {
        let long = "1".repeat(256 << 10);
        assert_eq!(of(&long), None);
        let text = NotAChannel::new(&"\u{e9}\n".repeat(1000)).to_string();
        assert!(
            text.len() < 250 && text.ends_with("such as \"3\""),
            "{text}"
        );
    }
}
