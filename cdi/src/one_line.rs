//! Text for people that quotes what may be anybody's.

use std::fmt::{self, Write};

/// Shows a value on one line: controls, line breaks and what turns the order of
/// letters on a screen are escaped, as `\n` and `\u{202e}`.
pub(crate) struct OneLine<T>(pub(crate) T);

/// Passes on what it gets, escaped.
struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_unseen) {
            let (plain, unseen) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut chars = unseen.chars();
            if let Some(unseen) = chars.next() {
                write!(self.0, "{}", unseen.escape_default())?;
            }
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

/// Whether `c` has no place of its own on a line.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::OneLine;

    #[test]
    fn what_leaves_the_line_or_turns_it_round_is_escaped() {
        let text = "a\nb\u{1b}[31m\u{202e}c\u{2028}d\u{85}é \u{1f980}";
        assert_eq!(
            OneLine(text).to_string(),
            "a\\nb\\u{1b}[31m\\u{202e}c\\u{2028}d\\u{85}é \u{1f980}"
        );
    }
}
