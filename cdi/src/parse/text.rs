//! Which characters and escapes YAML 1.1 allows.

use crate::SpecError;
use crate::spec::SpecFault;

type Result<T> = std::result::Result<T, SpecError>;

/// The text without its byte order mark, if YAML allows every character of it.
pub(super) fn check(text: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let at = text.get(..error.valid_up_to()).unwrap_or_default();
        refused("is not UTF-8", &String::from_utf8_lossy(at))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.starts_with('\u{feff}') {
        return Err(refused("has two byte order marks", ""));
    }
    match text.char_indices().find(|(_, c)| !is_allowed(*c)) {
        Some((at, c)) => {
            let before = text.get(..at).unwrap_or_default();
            let reason = format!("has the character U+{:04X}", u32::from(c));
            Err(refused(&reason, before))
        }
        None => Ok(text),
    }
}

fn refused(reason: &str, before: &str) -> SpecError {
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let fault = SpecFault::Syntax(format!("the text {reason}"));
    SpecError::new(fault).at(Some((line, column)))
}

/// What YAML 1.1 allows, except U+0085: a line break there, and none to the
/// parser used here.
fn is_allowed(c: char) -> bool {
    matches!(c,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..)
}

/// Why `source`, a double-quoted scalar as it is written, is not YAML 1.1: an
/// escape that only YAML 1.2 has, for the sake of JSON.
pub(super) fn newer_escape(source: &str) -> Option<&'static str> {
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        match escaped {
            Some('/') => return Some("'\\/' is not an escape of YAML 1.1"),
            Some('u') => {
                let mut digits = chars.as_str().chars().map(|c| c.to_ascii_lowercase());
                if digits.next() == Some('d') && digits.next().is_some_and(|c| c > '7') {
                    return Some("YAML 1.1 has no surrogates, use '\\U' and eight digits");
                }
            }
            _ => {}
        }
    }
    None
}
