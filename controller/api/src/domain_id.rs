use std::fmt;

use serde::Serialize;

/// The UID of a ComputeDomain, as opaque configs carry it in `domainID`.
///
/// The value is used as a label value, and Go's driver makes a directory of that name. So it is
/// held to the rule of label values, which also makes it one harmless path component: 1 to 63
/// ASCII letters, digits, `-`, `_` or `.`, with a letter or digit at both ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct DomainId(String);

/// Why a text is not a [`DomainId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainIdError {
    /// `domainID` is absent, null or empty. The text is Go's.
    #[error("domainID cannot be empty")]
    Empty,
    /// Longer than a label value may be.
    #[error("domainID of {len} bytes is longer than the {max} of a UID's label", max = DomainId::MAX_LEN)]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Holds a character that no UID has.
    #[error(
        "domainID {value:?} is not a UID: only letters, digits, '-', '_' and '.' may occur, with a letter or digit at both ends"
    )]
    Malformed {
        /// The refused text.
        value: String,
    },
}

impl DomainId {
    /// The longest label value.
    pub const MAX_LEN: usize = 63;

    /// Accepts `value` if it can be the UID of a ComputeDomain.
    pub fn parse(value: &str) -> Result<Self, DomainIdError> {
        let (Some(first), Some(last)) = (value.bytes().next(), value.bytes().next_back()) else {
            return Err(DomainIdError::Empty);
        };
        if value.len() > Self::MAX_LEN {
            return Err(DomainIdError::TooLong { len: value.len() });
        }
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let ends = first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric();
        if !ends || !value.bytes().all(inner) {
            return Err(DomainIdError::Malformed {
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

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_of_the_api_server_is_a_domain_id() {
        let uid = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";
        assert_eq!(DomainId::parse(uid).unwrap().as_str(), uid);
    }

    #[test]
    fn nothing_that_could_leave_its_directory_is_a_domain_id() {
        for bad in [
            ".", "..", "../etc", "a/b", "/a", "a\0b", "a b", "a\n", "-a", "a.",
        ] {
            let err = DomainId::parse(bad).unwrap_err();
            assert_eq!(
                err,
                DomainIdError::Malformed {
                    value: bad.to_owned()
                },
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_empty_text_and_an_overlong_one_are_refused() {
        assert_eq!(DomainId::parse(""), Err(DomainIdError::Empty));
        assert!(DomainId::parse(&"a".repeat(63)).is_ok());
        assert_eq!(
            DomainId::parse(&"a".repeat(64)),
            Err(DomainIdError::TooLong { len: 64 })
        );
    }
}
