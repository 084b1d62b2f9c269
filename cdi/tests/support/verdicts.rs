//! Texts of specs, and the results of CDI's Go library for them.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

/// A case on each line. `fixtures/yaml/README.md` says how they are made.
pub(crate) const VERDICTS: &str = include_str!("../fixtures/yaml/verdicts.jsonl");

/// A text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "not every test asks for all of it")]
pub(crate) struct Case {
    pub(crate) name: String,
    text: Option<String>,
    /// Of one that is no UTF-8.
    hex: Option<String>,
    /// The spec that the library holds, if it reads the text.
    pub(crate) go: Option<Value>,
    pub(crate) go_refuses: Option<String>,
    /// Why this crate reads it differently.
    pub(crate) differs: Option<String>,
}

// === impl Case ===

impl Case {
    /// The file's content.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        if let Some(text) = &self.text {
            return text.clone().into_bytes();
        }
        let digits = self.hex.as_deref().unwrap().as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    read_cases(VERDICTS)
}

/// Cases, or the answers to them.
pub(crate) fn read_cases(text: &str) -> Vec<Case> {
    let cases = text.lines().map(|line| serde_json::from_str(line).unwrap());
    cases.collect()
}

/// Cases of these texts, one of JSON on each line.
#[allow(dead_code, reason = "not every test asks for it")]
pub(crate) fn questions(texts: &[Vec<u8>]) -> String {
    let mut requests = String::new();
    for (at, text) in texts.iter().enumerate() {
        let hex = text.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        writeln!(requests, "{}", json!({"name": at.to_string(), "hex": hex})).unwrap();
    }
    requests
}

/// Texts of these cases that Go reads, with pieces that YAML readers may read differently.
#[allow(dead_code, reason = "not every test asks for it")]
pub(crate) fn mutants(count: usize, is_source: impl Fn(&Case) -> bool) -> Vec<Vec<u8>> {
    const PIECES: [&str; 36] = [
        "#",
        " #",
        "\t",
        "\n",
        " ",
        "\u{2028}",
        "\u{2029}",
        "\u{85}",
        "\u{feff}",
        "\r",
        "- ",
        ": ",
        ":",
        ",",
        "?",
        "? ",
        "!",
        "!!str ",
        "!!binary ",
        "&a ",
        "*a",
        "<<: ",
        "0",
        "0x",
        "1e",
        "_",
        ".",
        "'",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "---\n",
        "...\n",
    ];
    let mut random = fastrand::Rng::with_seed(16);
    let read = cases()
        .into_iter()
        .filter(|case| case.go.is_some() && is_source(case));
    let sources: Vec<Vec<u8>> = read.map(|case| case.bytes()).collect();
    let mutant = |_| {
        let mut text = random.choice(&sources).unwrap().clone();
        let ends_word = |at: &usize| !text.get(*at).is_some_and(u8::is_ascii_alphanumeric);
        let ends: Vec<usize> = (0..text.len()).filter(ends_word).collect();
        let start = random.choice(ends).unwrap() + random.usize(..2);
        let end = text.len().min(start + random.usize(..4) / 3);
        let piece = random.choice(PIECES).unwrap();
        text.splice(start..end, piece.bytes());
        text
    };
    (0..count).map(mutant).collect()
}
