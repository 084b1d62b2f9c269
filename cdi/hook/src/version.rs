//! Versions of drivers and of CUDA.

/// A version of up to three numbers, such as `575.57.08` or `12.9`. Missing numbers are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version([u64; 3]);

impl Version {
    /// `None` if the text is not such a version.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 3];
        let mut places = numbers.iter_mut();
        for part in text.split('.') {
            *places.next()? = number(part)?;
        }
        Some(Self(numbers))
    }

    /// The driver's branch, or CUDA's major version.
    pub(crate) fn major(self) -> u64 {
        let [major, ..] = self.0;
        major
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("575.57.08") > version("575.10.10"));
        assert!(version("99.1") < version("575.57.08"));
        assert_eq!(version("535.104"), version("535.104.0"));
        assert_eq!(version("575.57.08").major(), 575);
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["", "575.", "a.b", "1.2.3.4", "+1", "575.57.08-beta"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
