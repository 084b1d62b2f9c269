//! Whether a text that is no spec has a device's name in it.

/// Whether `device` stands in `text` as a word: not as part of a longer
/// device name. A `:` may follow, which in YAML ends a key.
pub(super) fn mentions(text: &[u8], device: &str) -> bool {
    let device = device.as_bytes();
    if device.is_empty() {
        return false;
    }
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    text.windows(device.len())
        .enumerate()
        .any(|(start, found)| {
            let before = start.checked_sub(1).and_then(|at| text.get(at));
            let after = text.get(start + device.len());
            found == device && !before.is_some_and(in_name) && !after.is_some_and(in_name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_word_only() {
        for text in [
            "channel-0",
            "name: channel-0",
            "{\"channel-0\"",
            "x=channel-0\n",
        ] {
            assert!(mentions(text.as_bytes(), "channel-0"), "{text:?}");
        }
        for text in ["", "channel-", "channel-00", "my-channel-0", "channel-0.1"] {
            assert!(!mentions(text.as_bytes(), "channel-0"), "{text:?}");
        }
        assert!(mentions(b"channel-01 channel-0", "channel-0"));
    }
}
