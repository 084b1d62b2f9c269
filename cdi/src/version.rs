//! CDI specification versions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A released version of the CDI specification.
///
/// A runtime refuses a whole file if it does not know its version, so a spec
/// should declare the lowest version that supports its fields, not the newest;
/// [`Spec::new`](crate::Spec::new) computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "&'static str")]
#[expect(
    missing_docs,
    reason = "the digits in a variant's name are the version"
)]
pub enum SpecVersion {
    V0_1_0,
    V0_2_0,
    V0_3_0,
    V0_4_0,
    V0_5_0,
    V0_6_0,
    V0_7_0,
    V0_8_0,
    V1_0_0,
    V1_1_0,
}

/// A `cdiVersion` that is not a released version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("CDI version {0:?} is unknown")]
pub struct UnknownVersion(String);

impl SpecVersion {
    /// The lowest version that Go's library reads, so the lowest of any spec.
    pub(crate) const FIRST: Self = Self::V0_3_0;

    const ALL: [Self; 10] = [
        Self::V0_1_0,
        Self::V0_2_0,
        Self::V0_3_0,
        Self::V0_4_0,
        Self::V0_5_0,
        Self::V0_6_0,
        Self::V0_7_0,
        Self::V0_8_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];

    /// The version as specs spell it, `0.5.0`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_4_0 => "0.4.0",
            Self::V0_5_0 => "0.5.0",
            Self::V0_6_0 => "0.6.0",
            Self::V0_7_0 => "0.7.0",
            Self::V0_8_0 => "0.8.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }
}

impl FromStr for SpecVersion {
    type Err = UnknownVersion;

    /// Accepts a leading `v`, as the CDI library does.
    // req: CDI-16
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let digits = text.strip_prefix('v').unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == digits)
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

impl TryFrom<String> for SpecVersion {
    type Error = UnknownVersion;

    fn try_from(text: String) -> Result<Self, UnknownVersion> {
        text.parse()
    }
}

impl From<SpecVersion> for &'static str {
    fn from(version: SpecVersion) -> Self {
        version.as_str()
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_back_with_and_without_a_leading_v() {
        for version in SpecVersion::ALL {
            assert_eq!(version.as_str().parse(), Ok(version));
            assert_eq!(format!("v{version}").parse(), Ok(version));
        }
    }

    // req: CDI-16
    #[test]
    fn a_version_from_the_future_is_unknown() {
        for text in ["9.0.0", "0.5", "", "vv0.5.0", "0.5.0 "] {
            assert!(text.parse::<SpecVersion>().is_err(), "{text:?}");
        }
    }
}
