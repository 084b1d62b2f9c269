//! Standard output whose reader may leave early, as `head` does.

use std::io::{self, ErrorKind, Write};

/// Once nobody reads any more, what is written is dropped, and the command
/// goes on to its end: its exit code is then still true.
pub(crate) struct Output<W> {
    inner: W,
    reader_left: bool,
}

/// Control characters escaped: names come from files that anyone may have
/// written, and a terminal obeys what it is sent.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

// === impl Output ===

impl<W: Write> Output<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            reader_left: false,
        }
    }

    fn unless_left<T>(
        &mut self,
        otherwise: T,
        write: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.reader_left {
            return Ok(otherwise);
        }
        match write(&mut self.inner) {
            Err(err) if err.kind() == ErrorKind::BrokenPipe => {
                self.reader_left = true;
                Ok(otherwise)
            }
            done => done,
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_left(bytes.len(), |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_left((), W::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable("Zoë-🦀"), "Zoë-🦀");
    }
}
