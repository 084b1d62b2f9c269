/// Why a text is no object name: not a DNS-1123 subdomain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateNameError {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// Longer than an object name may be.
    #[error("it is longer than {MAX} characters")]
    TooLong,
    /// Holds something other than lower-case letters, digits, `-` and `.`.
    #[error("it holds {0:?}")]
    Character(char),
    /// A dot-separated part is empty, or begins or ends with `-`.
    #[error("each part between dots must begin and end with a letter or digit")]
    Part,
}

/// The longest object name.
const MAX: usize = 253;

/// Accepts what the API server accepts as the name of a template.
pub(crate) fn check(name: &str) -> Result<(), TemplateNameError> {
    if name.is_empty() {
        return Err(TemplateNameError::Empty);
    }
    if name.len() > MAX {
        return Err(TemplateNameError::TooLong);
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if let Some(bad) = name.chars().find(|c| !plain(*c) && *c != '-' && *c != '.') {
        return Err(TemplateNameError::Character(bad));
    }
    let whole = |part: &str| part.starts_with(plain) && part.ends_with(plain);
    if name.split('.').all(whole) {
        Ok(())
    } else {
        Err(TemplateNameError::Part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_api_server_takes_are_taken() {
        for name in [
            "a",
            "train-a-channel",
            "123",
            "on",
            "null",
            "a.b-c.d",
            &"a".repeat(253),
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_it_does_not_take_are_refused_with_their_reason() {
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
            assert_eq!(check(name), Err(reason), "{name:?}");
        }
    }
}
