//! Errors for nodes that cannot be read as the expected type.

use std::fmt;

use serde::de::Error;

use crate::SpecError;
use crate::spec::SpecFault;

/// The longest text of a document that an error quotes. A file that is not a spec may hold secrets.
const LONGEST_QUOTE: usize = 40;

/// An error of the innermost reader; the readers around it add position and path.
#[derive(Debug)]
pub(super) struct ReadError(pub(super) SpecError);

/// A name or number; shown only if it looks like one.
pub(super) struct Shown<'a>(pub(super) &'a str);

// === impl ReadError ===

impl ReadError {
    /// Adds the field or entry (`[3]`) around the error, which begins at `position`.
    pub(super) fn within(self, position: (usize, usize), step: &str) -> Self {
        let Self(error) = self;
        let inner = error.field().unwrap_or_default();
        let is_joined = step.is_empty() || inner.is_empty() || inner.starts_with('[');
        let path = format!("{step}{}{inner}", if is_joined { "" } else { "." });
        let position = error.position().unwrap_or(position);
        Self(error.at(Some(position)).in_path(path))
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./".contains(c);
        if name.len() <= LONGEST_QUOTE && name.chars().all(is_plain) {
            return f.write_str(name);
        }
        write!(f, "a name of {} bytes", name.len())
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl Error for ReadError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(SpecError::new(SpecFault::Shape(reason.to_string())))
    }

    fn duplicate_field(_: &'static str) -> Self {
        Self(SpecError::new(SpecFault::Repeated))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<_> = expected.iter().map(|it| format!("`{it}`")).collect();
        let (field, expected) = (Shown(field), expected.join(", "));
        Self::custom(format_args!(
            "unknown field `{field}`, expected one of {expected}"
        ))
    }
}
