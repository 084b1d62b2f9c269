//! A spec's JSON.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

/// JSON on one line that JSON and YAML readers understand alike: in strings,
/// characters are escaped that either refuses or takes for a line break.
struct JsonAndYaml;

/// `value` as JSON that is also YAML 1.1.
pub(super) fn json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(512);
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, JsonAndYaml);
    value.serialize(&mut serializer)?;
    Ok(bytes)
}

impl Formatter for JsonAndYaml {
    /// `fragment` has none of the characters that JSON itself escapes.
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(needs_escape) {
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

/// Whether `c` is valid in a string of JSON, but not, or not as itself, in one of
/// YAML 1.1: control characters, further line breaks, the byte order mark and
/// noncharacters. All of them fit in one `\uXXXX`; YAML has no surrogate pairs.
fn needs_escape(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}
