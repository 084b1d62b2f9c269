//! The grammar of names, and where a string breaks it.

use std::fmt;

use dra_common::Advice;

/// The part of a name that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamePart {
    /// Before the `/` of a kind.
    Vendor,
    /// After the `/` of a kind.
    Class,
    /// After the `=` of a qualified name.
    Device,
}

/// Why a string is not a CDI name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(
    code = "cdi-name-invalid",
    hint = "write a kind as vendor/class, and a device as vendor/class=device. Vendor and class \
                start with a letter, the device name with a letter or digit. All three end with a \
                letter or digit. In between, '_', '-' and '.' are allowed, and in a device name \
                also ':'"
)]
pub enum NameError {
    /// The part is empty.
    #[error("CDI {part} name is empty")]
    Empty {
        /// Which part.
        part: NamePart,
    },
    /// A character is where the grammar does not allow it.
    #[error("CDI {part} name {name:?} cannot have {found:?} {position}")]
    Character {
        /// Which part.
        part: NamePart,
        /// The whole part.
        name: String,
        /// The character.
        found: char,
        /// Where it is.
        position: Position,
    },
    /// A kind without `/`.
    #[error("CDI kind {0:?} has no '/' between vendor and class")]
    NoSlash(String),
    /// A qualified name without `=`.
    #[error("CDI name {0:?} has no '=' between kind and device")]
    NoEquals(String),
}

/// Where in a name a character is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The first character.
    First,
    /// Neither first nor last.
    Inside,
    /// The last character.
    Last,
}

impl fmt::Display for NamePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vendor => "vendor",
            Self::Class => "class",
            Self::Device => "device",
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "at its start",
            Self::Inside => "in it",
            Self::Last => "at its end",
        })
    }
}

/// Whether `name` is a valid `part`.
// req: CDI-12
pub(super) fn check(part: NamePart, name: &str) -> Result<(), NameError> {
    let last = name
        .char_indices()
        .next_back()
        .ok_or(NameError::Empty { part })?
        .0;
    for (index, found) in name.char_indices() {
        let position = match index {
            0 => Position::First,
            _ if index == last => Position::Last,
            _ => Position::Inside,
        };
        if !allowed(part, position, found) {
            return Err(NameError::Character {
                part,
                name: name.to_owned(),
                found,
                position,
            });
        }
    }
    Ok(())
}

fn allowed(part: NamePart, position: Position, c: char) -> bool {
    match (position, part) {
        (Position::First, NamePart::Vendor | NamePart::Class) => c.is_ascii_alphabetic(),
        (Position::First, NamePart::Device) | (Position::Last, _) => c.is_ascii_alphanumeric(),
        (Position::Inside, NamePart::Device) => {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
        }
        (Position::Inside, _) => c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'),
    }
}
