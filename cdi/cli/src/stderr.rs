//! Messages on stderr.

use std::io::{self, Write};

use crate::escape::escape;

/// A message of the program, on one line.
pub(crate) fn note(message: &str) {
    line(&format!("cdi-gen: {message}"));
}

/// A line as it is, but for what a terminal would obey.
pub(crate) fn line(text: &str) {
    // If stderr is closed there is nowhere left to report that.
    let _ = writeln!(io::stderr(), "{}", escape(text));
}
