//! Whether a text that is no spec has a device's name in it.

use crate::{Kind, QualifiedName};

/// Whether `text` may be meant to define `name`: it has the device's name in
/// it and, if it tells kinds at all, the kind's.
pub(super) fn speaks_of(text: &[u8], name: &QualifiedName) -> bool {
    mentions(text, name.device().as_str()) && !is_of_another_kind(text, name.kind())
}

/// Whether what `text` has at its keys `kind` are kinds, and `kind` is none of
/// them.
pub(super) fn is_of_another_kind(text: &[u8], kind: &Kind) -> bool {
    let mut kinds = kinds(text).peekable();
    kinds.peek().is_some() && kinds.all(|found| found != *kind)
}

/// What stands at keys `kind`, of JSON or of YAML, and is one.
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
            let ends = |byte: &u8| !(in_name(*byte) || *byte == b'/');
            let end = rest.iter().position(ends).unwrap_or(rest.len());
            str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
        })
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether `device` stands in `text` as a word: not as part of a longer
/// device name. A `:` may follow, which in YAML ends a key.
fn mentions(text: &[u8], device: &str) -> bool {
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
                && !before.copied().is_some_and(in_name)
                && !after.copied().is_some_and(in_name)
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

    #[test]
    fn a_text_that_tells_its_kind_speaks_of_no_other() {
        let name = "nvidia.com/gpu=0".parse().unwrap();
        for text in [
            "{\"kind\": \"nvidia.com/gpu\", \"name\": \"0\"",
            "kind: 'nvidia.com/gpu'\ndevices:\n- name: \"0\"",
            "kind: nvidia.com/gpu\n- 0",
            "0 of something",
            "kind: what\n- 0",
        ] {
            assert!(speaks_of(text.as_bytes(), &name), "{text:?}");
        }
        for text in [
            "{\"kind\":\"nvidia.com/mig\",\"name\":\"0\"",
            "kind: nvidia.com/gpux\n- 0",
            "kind: nvidia.com/gpu\n- 1",
        ] {
            assert!(!speaks_of(text.as_bytes(), &name), "{text:?}");
        }
    }
}
