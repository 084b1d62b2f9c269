//! Colour, for a terminal only.

use std::env;
use std::io::{self, IsTerminal};

/// Whether to colour what is written to stdout. Colour never carries meaning
/// of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// On a terminal that has colours, unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    pub(crate) fn of_stdout() -> Self {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            on: io::stdout().is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    /// For a file.
    pub(crate) fn none() -> Self {
        Self { on: false }
    }

    /// What is wrong, or gone.
    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    /// What may be wrong, or has changed.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What is new.
    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    fn with(self, colour: &str, text: &str) -> String {
        if self.on {
            format!("\u{1b}[{colour}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Paint;

    #[test]
    fn colour_goes_around_the_text_or_nowhere() {
        assert_eq!(Paint { on: true }.red("no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(Paint { on: false }.green("yes"), "yes");
    }
}
