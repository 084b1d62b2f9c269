//! What others wrote, made fit for one line of a reason.
//!
//! File names and the output of programs may hold line breaks and the escape
//! sequences of terminals: neither may reach a log.

use std::fmt::{self, Write as _};
use std::path::Path;

/// A path with its control characters escaped.
pub(crate) struct Shown<'a>(pub(crate) &'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, &self.0.to_string_lossy())
    }
}

/// Text with its control characters escaped.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0)
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        if c.is_control() {
            write!(f, "{}", c.escape_default())?;
        } else {
            f.write_char(c)?;
        }
    }
    Ok(())
}

/// Text for one line of an error: printable, and at most a few words of it.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    const ENOUGH: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(ENOUGH)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_it_is_but_for_control_characters() {
        let shown = |path| Shown(Path::new(path)).to_string();
        assert_eq!(shown("/opt/my driver/ü"), "/opt/my driver/ü");
        assert_eq!(shown("/a\n\u{1b}[31mb"), "/a\\n\\u{1b}[31mb");
    }
}
