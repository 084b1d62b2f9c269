//! What others wrote, made fit for one line of a reason.
//!
//! File names and the output of programs may hold line breaks and the escape
//! sequences of terminals: neither may reach a log.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};

/// A path or a text as it is, but for its control characters, which are escaped.
pub(crate) struct Shown<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: AsRef<OsStr> + ?Sized> fmt::Display for Shown<'_, T> {
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

/// The beginning of what a program said, its lines as one: for output that may
/// be long, where the exact characters do not matter.
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
    use std::path::Path;

    use super::*;

    #[test]
    fn a_path_is_shown_as_it_is_but_for_control_characters() {
        let shown = |path| Shown(Path::new(path)).to_string();
        assert_eq!(shown("/opt/my driver/ü"), "/opt/my driver/ü");
        assert_eq!(shown("/a\n\u{1b}[31mb"), "/a\\n\\u{1b}[31mb");
    }
}
