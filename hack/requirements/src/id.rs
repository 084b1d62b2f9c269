//! The ids of requirements.

use std::fmt;

/// `KUBELET-7`: capital letters, a hyphen, a number without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    prefix: String,
    number: u32,
}

// === impl Id ===

impl Id {
    /// `None` if the text is not exactly one id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (prefix, digits) = text.split_once('-')?;
        let letters = prefix.len() >= 2 && prefix.bytes().all(|byte| byte.is_ascii_uppercase());
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        if !letters || !number {
            return None;
        }
        Some(Self {
            prefix: prefix.to_owned(),
            number: digits.parse().ok()?,
        })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.prefix, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_exactly_one_spelling() {
        assert_eq!(Id::parse("CDI-12").unwrap().to_string(), "CDI-12");
        for other in [
            "CDI", "CDI-", "CDI-0", "CDI-01", "cdi-1", "C-1", "CDI-1a", "CDI 1", "-1", "CDI--1",
        ] {
            assert_eq!(Id::parse(other), None, "{other}");
        }
    }
}
