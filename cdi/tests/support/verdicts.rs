//! Texts of specs, and what CDI's library in Go makes of them.

use serde::Deserialize;
use serde_json::Value;

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
    /// Why it is read otherwise here.
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
