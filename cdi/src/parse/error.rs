//! Why a node cannot be read as the type that is wanted.

use std::fmt::{self, Write};

use serde::de::{Error, Expected, Unexpected};

use crate::SpecError;
use crate::spec::SpecFault;

/// Why a node cannot be read. Made by the innermost reader, with the position;
/// the readers around it add the path.
#[derive(Debug)]
pub(super) struct ReadError {
    fault: SpecFault,
    position: Option<(usize, usize)>,
    /// From the innermost step outwards.
    path: Vec<Step>,
}

#[derive(Debug)]
pub(super) enum Step {
    Field(String),
    Entry(usize),
}

// === impl ReadError ===

impl ReadError {
    fn new(fault: SpecFault) -> Self {
        Self {
            fault,
            position: None,
            path: Vec::new(),
        }
    }

    pub(super) fn too_many() -> Self {
        Self::new(SpecFault::TooComplex("has too many aliases of too much"))
    }

    /// A struct's field that is there again.
    pub(super) fn repeated() -> Self {
        Self::new(SpecFault::Repeated)
    }

    /// At `position`, unless a more precise one is known.
    pub(super) fn at(mut self, position: (usize, usize)) -> Self {
        self.position.get_or_insert(position);
        self
    }

    pub(super) fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl From<ReadError> for SpecError {
    fn from(error: ReadError) -> Self {
        let mut path = String::new();
        for step in error.path.iter().rev() {
            // Writing to a string does not fail.
            let _ = match step {
                Step::Field(name) if path.is_empty() => write!(path, "{}", Shown(name)),
                Step::Field(name) => write!(path, ".{}", Shown(name)),
                Step::Entry(index) => write!(path, "[{index}]"),
            };
        }
        Self::new(error.fault).in_path(path).at(error.position)
    }
}

/// The longest text of a document in an error. A file that is no spec may be anybody's, and hold secrets.
const LONGEST_QUOTE: usize = 40;

/// A field's name, as long as it looks like one.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        if name.len() <= LONGEST_QUOTE && name.chars().all(is_plain) {
            return f.write_str(name);
        }
        write!(f, "a name of {} bytes", name.len())
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl Error for ReadError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::new(SpecFault::Shape(reason.to_string()))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<_> = expected.iter().map(|it| format!("`{it}`")).collect();
        let (field, expected) = (Shown(field), expected.join(", "));
        Self::custom(format_args!(
            "unknown field `{field}`, expected one of {expected}"
        ))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = describe(expected);
        let found = match found {
            Unexpected::Str(text) if text.len() > LONGEST_QUOTE => {
                format!("a text of {} bytes", text.len())
            }
            found => found.to_string(),
        };
        Self::custom(format_args!("invalid type: {found}, expected {expected}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = describe(expected);
        Self::custom(format_args!("invalid value: {found}, expected {expected}"))
    }
}

/// What serde expects, without the names of Rust's types.
fn describe(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "i64" => "a whole number of 64 bits".to_owned(),
        other => other.to_owned(),
    }
}
