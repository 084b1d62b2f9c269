//! Text from files that anyone may have written, made safe to look at: escaped
//! is what a terminal would obey, hide or turn around.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

/// For a table or a message: `\u{202e}`.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if shows_itself(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown
}

/// For a JSON document: `\u202e`. It keeps its meaning, since only strings have
/// such characters, but for line breaks, which only stand between them.
pub(crate) fn printable_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for c in document.chars() {
        if c == '\n' || shows_itself(c) {
            shown.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    shown
}

/// Writes a report as one JSON document.
pub(crate) fn write_json(report: &impl Serialize, output: &mut impl Write) -> io::Result<()> {
    let document = serde_json::to_string_pretty(report)?;
    // In one piece: stdout would be written to line by line.
    output.write_all((printable_json(&document) + "\n").as_bytes())
}

/// Whether the standard library would print it in a debug text as it is: then
/// it is no control, format (bidirectional text, zero width), separator, private
/// or unassigned character, and no mark on the one before it. Quotes and
/// backslashes, which a debug text needs for itself, may stay.
fn shows_itself(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().eq([c])
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;

    /// General categories Cc, Cf, Zl and Zp, without the line break.
    const NEVER_SHOWN: [RangeInclusive<char>; 22] = [
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
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable("ok\u{202e}evil\0"), "ok\\u{202e}evil\\0");
        assert_eq!(printable(r#"Zoë-🦀 "it's" \d"#), r#"Zoë-🦀 "it's" \d"#);
        for c in NEVER_SHOWN.into_iter().flatten() {
            let (text, json) = (printable(&c.to_string()), printable_json(&c.to_string()));
            assert!(text.is_ascii() && text.len() > 1, "{c:?}: {text}");
            assert!(json.is_ascii() && json.len() > 1, "{c:?}: {json}");
        }
    }

    #[test]
    fn json_means_the_same_after_it_was_made_printable() {
        let text: String = NEVER_SHOWN
            .into_iter()
            .flatten()
            .chain("é🦀\"\\\n".chars())
            .collect();
        let document = serde_json::to_string_pretty(&[&text]).unwrap();
        let shown = printable_json(&document);
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [text]);
        assert_eq!(shown.lines().count(), document.lines().count());
    }
}
