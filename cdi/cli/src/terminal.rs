//! Terminal output: stdout, which a reader such as `head` may close early; messages on stderr; colour.

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::escape::escape;

/// Writes a message of the program to stderr, on one line.
pub(crate) fn note(message: &str) {
    line(&format!("cdi-gen: {message}"));
}

/// Writes a line to stderr, with control characters escaped.
pub(crate) fn line(text: &str) {
    // If stderr is closed there is nowhere left to report that.
    let _ = writeln!(io::stderr(), "{}", escape(text));
}

/// A writer that does not report a closed pipe as an error, and drops later output. The command
/// then still runs to its end, with the right exit code.
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

/// Whether text is coloured. Colour never carries a meaning of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// Coloured if stdout is a terminal with colours, unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    pub(crate) fn for_stdout() -> Self {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            colour: io::stdout().is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    /// Without colour, for a file.
    pub(crate) fn plain() -> Self {
        Self { colour: false }
    }

    /// Red, for errors and removals.
    pub(crate) fn red(self, text: &str) -> String {
        self.coloured("31", text)
    }

    /// Yellow, for warnings and changes.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.coloured("33", text)
    }

    /// Green, for success and additions.
    pub(crate) fn green(self, text: &str) -> String {
        self.coloured("32", text)
    }

    fn coloured(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Style;

    #[test]
    fn colour_surrounds_the_text_or_is_left_out() {
        assert_eq!(Style { colour: true }.red("no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(Style { colour: false }.green("yes"), "yes");
    }
}
