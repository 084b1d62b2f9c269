//! Standard output whose reader may leave early, as `head` does.

use std::io::{self, ErrorKind, Write};

/// A writer for which a closed pipe is no error: what is written after that is
/// dropped. The command then still runs to its end, with the right exit code.
pub(crate) struct Stdout<W> {
    inner: W,
    closed: bool,
}

// === impl Stdout ===

impl<W: Write> Stdout<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            closed: false,
        }
    }

    fn unless_closed<T>(
        &mut self,
        dropped: T,
        write: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.closed {
            return Ok(dropped);
        }
        match write(&mut self.inner) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(dropped)
            }
            done => done,
        }
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), W::flush)
    }
}
