//! A spec's bytes.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

/// JSON on one line that JSON and YAML readers take for the same: what either
/// refuses or breaks lines at is escaped in texts.
struct Both;

/// `value` in such JSON.
pub(super) fn json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(512);
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Both);
    value.serialize(&mut serializer)?;
    Ok(bytes)
}

impl Formatter for Both {
    /// What JSON itself escapes is not in `fragment`.
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_odd) {
            let (plain, odd) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = odd.chars();
            if let Some(odd) = chars.next() {
                write!(writer, "\\u{:04x}", u32::from(odd))?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// What may stand in a text of JSON and not, or not as itself, in one of YAML
/// 1.1: controls, further line breaks, the byte order mark and what is no
/// character. All of these have four hexadecimal digits; YAML has no pairs of
/// surrogates.
fn is_odd(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}
