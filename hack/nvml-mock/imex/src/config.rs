//! Files with `KEY=value` lines: the configuration of `nvidia-imex`, and the faults.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The keys of such a file and their values.
#[derive(Debug, Default)]
pub struct Config(BTreeMap<String, String>);

impl Config {
    /// Reads a file. Comments begin with `#`; like the real program, it ignores other lines.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(path)?))
    }

    /// Parses a text.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        Self(
            pairs
                .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    /// The value of a key, unless it is empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A number, or `default`.
    ///
    /// # Errors
    /// One line that names the key.
    pub fn number(&self, key: &str, default: u64) -> Result<u64, String> {
        self.get(key).map_or(Ok(default), |value| {
            value
                .parse()
                .map_err(|_| format!("{key} is not a number: {value:?}"))
        })
    }

    /// Whether a key is `1`.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some("1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_lines_without_a_key_are_ignored_and_the_last_value_wins() {
        let config = Config::parse("# A=1\nA = 2\nnothing\nA=3\nB=\n");
        assert_eq!(config.get("A"), Some("3"));
        assert_eq!(config.get("B"), None);
        assert_eq!(config.number("C", 7), Ok(7));
        assert!(
            Config::parse("A=x")
                .number("A", 0)
                .unwrap_err()
                .contains("A is not")
        );
    }
}
