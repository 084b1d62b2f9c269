//! Addresses of PCI functions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The address of a PCI function. Displays as in sysfs: `0000:65:00.0`, the domain with four digits or more.
///
/// Parses that form, and NVML's, whose domain has eight digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// Error of a text that is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPciAddress(String);

/// The numbers of devices on a bus and of functions of a device.
const DEVICES: u8 = 32;
const FUNCTIONS: u8 = 8;

// === impl PciAddress ===

impl FromStr for PciAddress {
    type Err = InvalidPciAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| InvalidPciAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let has_digits = |text: &str, most| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|it| it.is_ascii_hexdigit())
    };
    let is_valid = has_digits(domain, 8)
        && has_digits(bus, 2)
        && has_digits(device, 2)
        && has_digits(function, 1);
    let number = |text| u8::from_str_radix(text, 16).ok();
    let address = PciAddress {
        domain: u32::from_str_radix(domain, 16).ok()?,
        bus: number(bus)?,
        device: number(device)?,
        function: number(function)?,
    };
    (is_valid && address.device < DEVICES && address.function < FUNCTIONS).then_some(address)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl TryFrom<String> for PciAddress {
    type Error = InvalidPciAddress;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> Self {
        address.to_string()
    }
}

// === impl InvalidPciAddress ===

impl fmt::Display for InvalidPciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a PCI address such as 0000:65:00.0", self.0)
    }
}

impl std::error::Error for InvalidPciAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_nvml_and_sysfs_are_one_address() {
        for text in ["00000000:65:00.0", "0000:65:00.0", "00000000:65:00.0"] {
            assert_eq!(
                text.parse::<PciAddress>().unwrap().to_string(),
                "0000:65:00.0"
            );
        }
        let upper: PciAddress = "000F:01:1F.7".parse().unwrap();
        assert_eq!(upper.to_string(), "000f:01:1f.7");
        let wide: PciAddress = "00010000:0A:00.0".parse().unwrap();
        assert_eq!(wide.to_string(), "10000:0a:00.0");
    }

    #[test]
    fn another_text_is_refused() {
        for text in [
            "",
            "65:00.0",
            "0000:65:00",
            "0000:65:20.0",
            "0000:65:00.8",
            "0000:+5:00.0",
            "000000000:65:00.0",
            "0000:65:00.0 ",
            "0000:065:00.0",
            "gpu",
        ] {
            let error = text.parse::<PciAddress>().unwrap_err();
            assert!(error.to_string().contains("is not a PCI address"), "{text}");
        }
    }
}
