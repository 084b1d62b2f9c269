//! Tells which of two copies of an object is newer.

/// An object's `metadata.resourceVersion`, to order copies of objects of one kind: a late watch event must
/// not replace a newer response.
///
/// Kubernetes defines their order as integers since 1.35 (KEP-5504), and they were integers before. A text
/// that is not an integer is older than every integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version(u64);

impl Version {
    /// Reads a `metadata.resourceVersion`.
    pub(crate) fn parse(resource_version: Option<&str>) -> Self {
        let number = resource_version.and_then(|text| text.parse().ok());
        Self(number.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(Version::parse(Some("100")) > Version::parse(Some("99")));
    }

    #[test]
    fn a_version_that_is_not_a_number_is_oldest() {
        for unknown in [None, Some(""), Some("a"), Some("-1")] {
            assert_eq!(Version::parse(unknown), Version::default());
            assert!(Version::parse(unknown) < Version::parse(Some("1")));
        }
    }
}
