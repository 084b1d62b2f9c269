//! The rule for names of API objects, checked before a request is sent.

/// Why a text is not a valid object name (a DNS-1123 subdomain).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateNameError {
    /// The empty text.
    #[error("it is empty")]
    Empty,
    /// Longer than an object name may be.
    #[error("it has more than {MAX_LEN} characters")]
    TooLong,
    /// Contains something other than lower-case letters, digits, `-` and `.`.
    #[error("it contains {0:?}")]
    Character(char),
    /// A dot-separated part is empty, or begins or ends with `-`.
    #[error("each part between dots must begin and end with a letter or digit")]
    Part,
}

/// The longest object name.
const MAX_LEN: usize = 253;

/// Accepts what the API server accepts as the name of a `ResourceClaimTemplate`.
// req: CD-13
pub(crate) fn validate(name: &str) -> Result<(), TemplateNameError> {
    if name.is_empty() {
        return Err(TemplateNameError::Empty);
    }
    if name.len() > MAX_LEN {
        return Err(TemplateNameError::TooLong);
    }
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let allowed = |c: char| alphanumeric(c) || c == '-' || c == '.';
    if let Some(bad) = name.chars().find(|c| !allowed(*c)) {
        return Err(TemplateNameError::Character(bad));
    }
    let well_formed = |part: &str| part.starts_with(alphanumeric) && part.ends_with(alphanumeric);
    if name.split('.').all(well_formed) {
        Ok(())
    } else {
        Err(TemplateNameError::Part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_api_server_accepts_are_accepted() {
        for name in [
            "a",
            "train-a-channel",
            "123",
            "on",
            "null",
            "a.b-c.d",
            &"a".repeat(253),
        ] {
            assert_eq!(validate(name), Ok(()), "{name}");
        }
    }

    // req: CD-13
    #[test]
    fn other_names_are_rejected_with_the_reason() {
        for (name, reason) in [
            ("", TemplateNameError::Empty),
            (&*"a".repeat(254), TemplateNameError::TooLong),
            ("A", TemplateNameError::Character('A')),
            ("a/b", TemplateNameError::Character('/')),
            (
                "a\nnamespace: kube-system",
                TemplateNameError::Character('\n'),
            ),
            ("ä", TemplateNameError::Character('ä')),
            ("-a", TemplateNameError::Part),
            ("a-", TemplateNameError::Part),
            ("a..b", TemplateNameError::Part),
            (".a", TemplateNameError::Part),
        ] {
            assert_eq!(validate(name), Err(reason), "{name:?}");
        }
    }
}
