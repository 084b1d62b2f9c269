//! Untrusted text in messages: file names, and output and files of other programs.

use std::fmt::{self, Write};

/// Displays a value on one line.
///
/// Escapes control characters, line breaks, invisible characters and those that change the text
/// direction, as `\n` and `\u{202e}`. All other text is unchanged.
#[derive(Debug, Clone, Copy)]
pub struct OneLine<T>(pub T);

/// A writer that escapes invisible characters.
struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

// === impl OneLine ===

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

// === impl Escaping ===

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_invisible) {
            let (plain, invisible) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut chars = invisible.chars();
            if let Some(invisible) = chars.next() {
                write!(self.0, "{}", invisible.escape_default())?;
            }
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

/// Whether the character is not visible as itself at its place in the line.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Joins the lines of `text` into one line of at most `max` bytes, plus `...` if it was cut.
///
/// Drops the invisible characters that [`OneLine`] escapes. For long messages that need not be
/// quoted exactly.
pub fn joined_lines(text: &str, max: usize) -> String {
    let visible = |word: &str| -> String { word.chars().filter(|c| !is_invisible(*c)).collect() };
    let words: Vec<String> = text.split_whitespace().map(visible).collect();
    let mut line = words.join(" ").trim().to_owned();
    if line.len() > max {
        line.truncate(truncated(&line, max).len());
        line.push_str("...");
    }
    line
}

/// Returns the longest prefix of `text` that has at most `max` bytes and ends between characters.
pub fn truncated(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_break_or_reverse_a_line_are_escaped() {
        let text = "a\nb\u{1b}[31m\u{202e}c\u{2028}d\u{85}é \u{1f980}";
        assert_eq!(
            OneLine(text).to_string(),
            "a\\nb\\u{1b}[31m\\u{202e}c\\u{2028}d\\u{85}é \u{1f980}"
        );
    }

    #[test]
    fn lines_are_joined_without_control_characters() {
        let text = "a\u{1b}[31mred\u{7}\n  \u{202e}txt.exe\u{200f}\u{2066}é\0";
        assert_eq!(joined_lines(text, 99), "a[31mred txt.exeé");
        assert_eq!(joined_lines(" \n\u{7}", 99), "");
    }

    #[test]
    fn a_joined_line_is_truncated_between_characters() {
        assert_eq!(joined_lines("ä\nä", 5), "ä ä");
        assert_eq!(joined_lines("ä\nä", 4), "ä ...");
    }

    #[test]
    fn a_text_is_truncated_between_characters() {
        assert_eq!(truncated("aäb", 2), "a");
        assert_eq!(truncated("aäb", 3), "aä");
        assert_eq!(truncated("aäb", 9), "aäb");
    }
}
