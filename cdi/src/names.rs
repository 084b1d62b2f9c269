//! CDI names: kind, device name, qualified name.
//!
//! The grammar is what the CDI library enforces (`pkg/parser` of
//! `tags.cncf.io/container-device-interface`), which sets no length limits:
//!
//! ```text
//! qualified = kind "=" device        k8s.compute-domain.nvidia.com/claim=0a1b-channel-0
//! kind      = vendor "/" class
//! vendor, class   letter, then letters digits _ - . , last a letter or digit
//! device          letter or digit, then also ":",     last a letter or digit
//! ```

mod grammar;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use grammar::check;

pub use grammar::{NameError, NamePart, Position};

/// A CDI kind, `vendor/class`: what all devices of a spec are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind {
    vendor: String,
    class: String,
}

/// A device's name within its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceName(String);

/// A device's name among all kinds, `vendor/class=device`: the CDI device id that
/// a DRA driver returns to kubelet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    kind: Kind,
    device: DeviceName,
}

// === impl Kind ===

impl Kind {
    /// The kind of `vendor` and `class`, both checked against the grammar.
    pub fn new(vendor: &str, class: &str) -> Result<Self, NameError> {
        check(NamePart::Vendor, vendor)?;
        check(NamePart::Class, class)?;
        Ok(Self {
            vendor: vendor.to_owned(),
            class: class.to_owned(),
        })
    }

    /// The kind of claims' devices in NVIDIA's ComputeDomain driver and in this
    /// one: `k8s.compute-domain.nvidia.com/claim`.
    // req: CDI-1
    pub fn compute_domain_claim() -> Self {
        Self {
            vendor: "k8s.compute-domain.nvidia.com".to_owned(),
            class: "claim".to_owned(),
        }
    }

    /// The kind of claims' devices in NVIDIA's GPU driver: `k8s.gpu.nvidia.com/claim`.
    // req: CDI-1
    pub fn gpu_claim() -> Self {
        Self {
            vendor: "k8s.gpu.nvidia.com".to_owned(),
            class: "claim".to_owned(),
        }
    }

    /// The part before the `/`.
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// The part after the `/`.
    pub fn class(&self) -> &str {
        &self.class
    }
}

impl FromStr for Kind {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (vendor, class) = text
            .split_once('/')
            .ok_or_else(|| NameError::NoSlash(text.to_owned()))?;
        Self::new(vendor, class)
    }
}

impl TryFrom<String> for Kind {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.to_string()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vendor, self.class)
    }
}

// === impl DeviceName ===

impl DeviceName {
    /// `name`, checked against the grammar.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        check(NamePart::Device, &name)?;
        Ok(Self(name))
    }

    /// A name that is known to be valid; each caller says why.
    pub(crate) fn from_valid(name: String) -> Self {
        debug_assert!(check(NamePart::Device, &name).is_ok(), "{name:?}");
        Self(name)
    }

    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the first character is a digit, which needs CDI 0.5.0.
    pub(crate) fn starts_with_digit(&self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }
}

impl TryFrom<String> for DeviceName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl QualifiedName ===

impl QualifiedName {
    /// The name of `device` of `kind`.
    pub fn new(kind: Kind, device: DeviceName) -> Self {
        Self { kind, device }
    }

    /// The part before the `=`.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The part after the `=`.
    pub fn device(&self) -> &DeviceName {
        &self.device
    }
}

impl FromStr for QualifiedName {
    type Err = NameError;

    /// Splits at the first `=`, then at the first `/`, as the CDI library does.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (kind, device) = text
            .split_once('=')
            .ok_or_else(|| NameError::NoEquals(text.to_owned()))?;
        Ok(Self::new(kind.parse()?, DeviceName::new(device)?))
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualified_name_reads_back_as_written() {
        let text = "k8s.compute-domain.nvidia.com/claim=0a1b-channel-0";
        let name: QualifiedName = text.parse().unwrap();
        assert_eq!(name.kind(), &Kind::compute_domain_claim());
        assert_eq!(name.device().as_str(), "0a1b-channel-0");
        assert_eq!(name.to_string(), text);
    }

    #[test]
    fn names_that_the_cdi_library_accepts_are_accepted() {
        for name in ["0", "a", "0:1.2_3-z", "gpu0"] {
            assert!(DeviceName::new(name).is_ok(), "{name:?}");
        }
        for kind in ["a/b", "nvidia.com/gpu", "v_1/c.2"] {
            assert!(kind.parse::<Kind>().is_ok(), "{kind:?}");
        }
    }

    // req: CDI-12
    #[test]
    fn names_that_the_cdi_library_refuses_are_refused() {
        for name in ["", "-a", "a-", "a/b", "a=b", "a b", "ä", "aä", "a\n"] {
            assert!(DeviceName::new(name).is_err(), "{name:?}");
        }
        for kind in ["", "a", "/", "a/", "/b", "0/b", "a/b/c", "a./b", "a:b/c"] {
            assert!(kind.parse::<Kind>().is_err(), "{kind:?}");
        }
        for name in ["a/b", "/dev/null=x", "a=b", "a/b="] {
            assert!(name.parse::<QualifiedName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_error_names_the_text_and_the_character() {
        let error = "nvidia.com/gpu=a b".parse::<QualifiedName>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "CDI device name \"a b\" cannot have ' ' in it"
        );
    }
}
