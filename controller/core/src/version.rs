//! Which of two copies of an object is newer.

/// An object's `metadata.resourceVersion`, to order copies of objects of one kind: what a watch
/// delivers late must not replace what a response told before.
///
/// Kubernetes compares them as integers since 1.35 (KEP-5504), and they were integers before. One
/// that is none is older than every other, and not older than itself.
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
    fn versions_are_numbers_and_not_texts() {
        assert!(Version::parse(Some("100")) > Version::parse(Some("99")));
    }

    #[test]
    fn what_is_not_a_number_is_oldest() {
        for unknown in [None, Some(""), Some("a"), Some("-1")] {
            assert_eq!(Version::parse(unknown), Version::default());
            assert!(Version::parse(unknown) < Version::parse(Some("1")));
        }
    }
}
