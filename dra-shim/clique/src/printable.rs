//! Untrusted text, made fit for one line of a message.
//!
//! File names and the output of programs may hold line breaks and the escape
//! sequences of terminals, and neither may reach a log.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};

/// Displays a path or a text unchanged, except that control characters are escaped.
pub(crate) struct Printable<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: AsRef<OsStr> + ?Sized> fmt::Display for Printable<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.as_ref().to_string_lossy().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// The beginning of a program's output, with its lines joined. Lossy: for
/// output that may be long and need not be quoted exactly.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_control_characters_of_a_path_are_escaped() {
        let printed = |path| Printable(Path::new(path)).to_string();
        assert_eq!(printed("/opt/my driver/ü"), "/opt/my driver/ü");
        assert_eq!(printed("/a\n\u{1b}[31mb"), "/a\\n\\u{1b}[31mb");
    }
}
