//! A page as a file.

use std::fs;
use std::path::{Path, PathBuf};

/// Fails unless `docs/reference/NAME` consists of the generated header, which names `package`, and `text`.
/// With `UPDATE_REFERENCE=1` in the environment, it writes the page instead.
///
/// # Panics
/// If the page differs, or cannot be read or written.
#[expect(clippy::panic, reason = "an assertion of tests")]
pub fn assert_page(name: &str, package: &str, text: &str) {
    let path = directory().join(name);
    let update = format!("UPDATE_REFERENCE=1 cargo test -p {package} reference");
    let page = format!("<!-- Generated. `{update}` brings it up to date. -->\n\n{text}");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        if let Err(error) = fs::write(&path, &page) {
            panic!("{} cannot be written: {error}", path.display());
        }
        return;
    }
    let stored = match fs::read_to_string(&path) {
        Ok(stored) => stored,
        Err(error) => panic!(
            "{} cannot be read: {error}; write it: {update}",
            path.display()
        ),
    };
    if let Some(difference) = difference(&stored, &page) {
        panic!("docs/reference/{name} is out of date, {difference}; bring it up to date: {update}");
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

/// The first difference between the two texts.
fn difference(stored: &str, page: &str) -> Option<String> {
    if stored == page {
        return None;
    }
    let (mut stored, mut page) = (stored.lines(), page.lines());
    let mut line = 1;
    loop {
        match (stored.next(), page.next()) {
            (None, None) => return Some("only its line endings differ".to_owned()),
            (old, new) if old == new => line += 1,
            (old, new) => {
                let [old, new] = [old, new].map(Option::unwrap_or_default);
                return Some(format!("line {line} is {old:?} and should be {new:?}"));
            }
        }
    }
}

/// Formats `text` for a cell of a table.
pub fn cell(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_reported() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let line = difference("a\nb\nc\n", "a\nB\n").unwrap();
        assert_eq!(line, r#"line 2 is "b" and should be "B""#);
        let shorter = difference("a\n", "a\nb\n").unwrap();
        assert_eq!(shorter, r#"line 2 is "" and should be "b""#);
        assert!(difference("a\n", "a").is_some());
    }

    #[test]
    fn a_cell_is_one_line_and_ends_no_cell() {
        assert_eq!(cell("one\n  two | three"), "one two \\| three");
    }
}
