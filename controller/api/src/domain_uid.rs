use std::fmt;

use serde::Serialize;

/// The UID of a ComputeDomain. Opaque configs carry it in the field `domainID`.
///
/// Must be a valid label value: 1 to 63 ASCII letters, digits, `-`, `_` or `.`, with a letter or digit at both ends.
/// It is used as a label value, and the Go driver creates a directory of that name; a label value is always a safe
/// path component.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct DomainUid(String);

/// Why a text is not a [`DomainUid`]. The messages name the field `domainID`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainUidError {
    /// `domainID` is absent, null or empty. The message is the Go driver's.
    #[error("domainID cannot be empty")]
    Empty,
    /// Longer than a label value can be.
    #[error("domainID has {len} bytes; a label value can have at most {max}", max = DomainUid::MAX_LEN)]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Contains characters that UIDs do not have.
    #[error(
        "domainID {value:?} is not a UID: it must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
    )]
    Malformed {
        /// The text.
        value: String,
    },
}

impl DomainUid {
    /// Maximum length of a label value.
    pub const MAX_LEN: usize = 63;

    /// Parses the UID of a ComputeDomain.
    ///
    /// # Errors
    /// If it is empty, too long, or not a valid label value.
    pub fn parse(value: &str) -> Result<Self, DomainUidError> {
        let (Some(first), Some(last)) = (value.bytes().next(), value.bytes().next_back()) else {
            return Err(DomainUidError::Empty);
        };
        if value.len() > Self::MAX_LEN {
            return Err(DomainUidError::TooLong { len: value.len() });
        }
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let ends = first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric();
        if !ends || !value.bytes().all(inner) {
            return Err(DomainUidError::Malformed {
                value: value.to_owned(),
            });
        }
        Ok(Self(value.to_owned()))
    }

    /// The UID.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_of_the_api_server_is_accepted() {
        let uid = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";
        assert_eq!(DomainUid::parse(uid).unwrap().as_str(), uid);
    }

    #[test]
    fn nothing_that_could_leave_its_directory_is_accepted() {
        for bad in [
            ".", "..", "../etc", "a/b", "/a", "a\0b", "a b", "a\n", "-a", "a.",
        ] {
            let err = DomainUid::parse(bad).unwrap_err();
            assert_eq!(
                err,
                DomainUidError::Malformed {
                    value: bad.to_owned()
                },
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_empty_text_and_an_overlong_one_are_rejected() {
        assert_eq!(DomainUid::parse(""), Err(DomainUidError::Empty));
        assert!(DomainUid::parse(&"a".repeat(63)).is_ok());
        assert_eq!(
            DomainUid::parse(&"a".repeat(64)),
            Err(DomainUidError::TooLong { len: 64 })
        );
    }
}
