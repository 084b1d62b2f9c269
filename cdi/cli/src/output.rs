//! Standard output whose reader may leave early, as `head` does.

use std::io::{self, ErrorKind, Write};

/// Once nobody reads any more, what is written is dropped, and the command
/// goes on to its end: its exit code is then still true.
pub(crate) struct Output<W> {
    inner: W,
    reader_left: bool,
}

// === impl Output ===

impl<W: Write> Output<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            reader_left: false,
        }
    }

    /// For a command that would go on for ever.
    pub(crate) fn reader_left(&self) -> bool {
        self.reader_left
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
