//! Untrusted text in messages: it may come from anyone who writes a spec file.

use std::fmt::{self, Write};

/// Displays a value on one line: control characters, line breaks and characters
/// that change the direction of text are escaped, as `\n` and `\u{202e}`.
pub(crate) struct OneLine<T>(pub(crate) T);

/// Escapes what is written to it.
struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

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

/// Whether `c` is not shown as itself, at its place in the line.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::OneLine;

    #[test]
    fn characters_that_break_or_reverse_a_line_are_escaped() {
        let text = "a\nb\u{1b}[31m\u{202e}c\u{2028}d\u{85}é \u{1f980}";
        assert_eq!(
            OneLine(text).to_string(),
            "a\\nb\\u{1b}[31m\\u{202e}c\\u{2028}d\\u{85}é \u{1f980}"
        );
    }
}
