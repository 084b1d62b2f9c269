//! Searches text that is not a valid spec for a device's name.

use crate::{Kind, QualifiedName};

/// Whether `text` was probably meant to define `name`: it has both the device's
/// name and its kind.
pub(super) fn may_define(text: &[u8], name: &QualifiedName) -> bool {
    has_word(text, name.device().as_str()) && kinds(text).any(|found| found == *name.kind())
}

/// Whether `text` has kinds (values of a key `kind`), and `kind` is not among
/// them.
pub(super) fn has_only_other_kinds(text: &[u8], kind: &Kind) -> bool {
    let mut kinds = kinds(text).peekable();
    kinds.peek().is_some() && kinds.all(|found| found != *kind)
}

/// The valid kinds among the values of keys `kind`, in JSON or YAML.
fn kinds(text: &[u8]) -> impl Iterator<Item = Kind> {
    const KEY: &[u8] = b"kind";
    let keys = text.windows(KEY.len()).enumerate();
    keys.filter(|(_, found)| *found == KEY)
        .filter_map(|(start, _)| {
            let quote = |byte: &u8| matches!(byte, b'"' | b'\'');
            let rest = text.get(start + KEY.len()..)?;
            let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
            let rest = rest
                .trim_ascii_start()
                .strip_prefix(b":")?
                .trim_ascii_start();
            let rest = match rest.first() {
                Some(first) if quote(first) => rest.get(1..)?,
                _ => rest,
            };
            let ends = |byte: &u8| !(is_name_byte(*byte) || *byte == b'/');
            let end = rest.iter().position(ends).unwrap_or(rest.len());
            str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
        })
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether `device` is in `text` as a whole word, not as part of a longer device
/// name. A `:` may follow, which in YAML ends a key.
fn has_word(text: &[u8], device: &str) -> bool {
    let device = device.as_bytes();
    if device.is_empty() {
        return false;
    }
    text.windows(device.len())
        .enumerate()
        .any(|(start, found)| {
            let before = start.checked_sub(1).and_then(|at| text.get(at));
            let after = text.get(start + device.len());
            found == device
                && !before.copied().is_some_and(is_name_byte)
                && !after.copied().is_some_and(is_name_byte)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_whole_word_only() {
        for text in [
            "channel-0",
            "name: channel-0",
            "{\"channel-0\"",
            "x=channel-0\n",
        ] {
            assert!(has_word(text.as_bytes(), "channel-0"), "{text:?}");
        }
        for text in ["", "channel-", "channel-00", "my-channel-0", "channel-0.1"] {
            assert!(!has_word(text.as_bytes(), "channel-0"), "{text:?}");
        }
        assert!(has_word(b"channel-01 channel-0", "channel-0"));
    }

    #[test]
    fn a_text_with_a_kind_defines_no_device_of_another_kind() {
        let name = "nvidia.com/gpu=0".parse().unwrap();
        for text in [
            "{\"kind\": \"nvidia.com/gpu\", \"name\": \"0\"",
            "kind: 'nvidia.com/gpu'\ndevices:\n- name: \"0\"",
            "kind: nvidia.com/gpu\n- 0",
        ] {
            assert!(may_define(text.as_bytes(), &name), "{text:?}");
        }
        for text in [
            "{\"kind\":\"nvidia.com/mig\",\"name\":\"0\"",
            "kind: nvidia.com/gpux\n- 0",
            "kind: nvidia.com/gpu\n- 1",
            // Without a kind it may be any file.
            "0 of something",
            "kind: what\n- 0",
        ] {
            assert!(!may_define(text.as_bytes(), &name), "{text:?}");
        }
    }
}
