//! Colour, on terminals only.

use std::env;
use std::io::{self, IsTerminal};

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

    /// For errors, and for what was removed.
    pub(crate) fn red(self, text: &str) -> String {
        self.coloured("31", text)
    }

    /// For warnings, and for what has changed.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.coloured("33", text)
    }

    /// For what is all right, and for what was added.
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
