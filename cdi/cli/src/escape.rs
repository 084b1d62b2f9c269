//! Makes untrusted text, from files that any user may have written, safe to print: control,
//! bidirectional and invisible characters are escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes text for a table or a message: `\u{202e}`.
// req: DOCTOR-6
pub(crate) fn escape(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) {
            escaped.push(c);
        } else {
            escaped.extend(c.escape_debug());
        }
    }
    escaped
}

/// For a JSON document: `\u202e`. The document keeps its meaning: such
/// characters occur in strings only, except line breaks, which are kept because
/// they occur between strings only.
pub(crate) fn escape_json(document: &str) -> Cow<'_, str> {
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n');
    if document.bytes().all(is_plain) {
        return document.into();
    }
    let mut escaped = String::with_capacity(document.len());
    for c in document.chars() {
        if c == '\n' || is_printable(c) {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped.into()
}

/// Whether the text surely needs no escaping.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Whether `Debug` of the standard library prints it as it is: then it is no
/// control, format (bidirectional text, zero width), separator, private-use or
/// unassigned character, and no combining mark. Quotes and backslashes, which
/// `Debug` escapes for its own syntax, are printable.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~') || c.escape_debug().eq([c])
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;

    /// General categories Cc, Cf, Zl and Zp, without the line break.
    const ESCAPED: [RangeInclusive<char>; 22] = [
        '\0'..='\t',
        '\u{b}'..='\u{1f}',
        '\u{7f}'..='\u{9f}',
        '\u{ad}'..='\u{ad}',
        '\u{600}'..='\u{605}',
        '\u{61c}'..='\u{61c}',
        '\u{6dd}'..='\u{6dd}',
        '\u{70f}'..='\u{70f}',
        '\u{890}'..='\u{891}',
        '\u{8e2}'..='\u{8e2}',
        '\u{180e}'..='\u{180e}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{feff}'..='\u{feff}',
        '\u{fff9}'..='\u{fffb}',
        '\u{110bd}'..='\u{110bd}',
        '\u{110cd}'..='\u{110cd}',
        '\u{13430}'..='\u{1343f}',
        '\u{1bca0}'..='\u{1bca3}',
        '\u{1d173}'..='\u{1d17a}',
        '\u{e0001}'..='\u{e007f}',
    ];

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(escape("ok\u{202e}evil\0"), "ok\\u{202e}evil\\0");
        assert_eq!(escape(r#"Zoë-🦀 "it's" \d"#), r#"Zoë-🦀 "it's" \d"#);
        for c in ESCAPED.into_iter().flatten() {
            let (text, json) = (
                escape(&c.to_string()),
                escape_json(&c.to_string()).into_owned(),
            );
            assert!(text.is_ascii() && text.len() > 1, "{c:?}: {text}");
            assert!(json.is_ascii() && json.len() > 1, "{c:?}: {json}");
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let text: String = ESCAPED
            .into_iter()
            .flatten()
            .chain("é🦀\"\\\n".chars())
            .collect();
        let document = serde_json::to_string_pretty(&[&text]).unwrap();
        let escaped = escape_json(&document);
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&escaped).unwrap(),
            [text]
        );
        assert_eq!(escaped.lines().count(), document.lines().count());
    }
}
