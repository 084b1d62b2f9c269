//! The output of programs, made fit for one line of a message.

use dra_common::is_invisible;

/// The beginning of a program's output, with its lines joined. Lossy: for
/// output that may be long and need not be quoted exactly.
pub(crate) fn one_line(bytes: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !is_invisible(*c))
        .take(MAX_CHARS)
        .collect()
}
