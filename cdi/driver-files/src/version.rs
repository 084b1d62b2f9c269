//! The version of an NVIDIA driver.

use std::fmt;
use std::str::FromStr;

use dra_common::{Advice, OneLine};

/// The version of an NVIDIA driver, such as `580.82.07`: two or three numbers.
///
/// Files of the driver have it in their names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion(String);

/// Error of a text that is not the version of a driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[error("{} is not the version of an NVIDIA driver", OneLine(text))]
#[advice(
    code = "driver-version-invalid",
    hint = "pass a version such as 580.82.07, as in /proc/driver/nvidia/version"
)]
pub struct InvalidDriverVersion {
    /// The text.
    pub text: String,
}

/// The lowest major version of a driver with the files that this crate knows. Lower numbers are versions of other
/// things, such as `libcuda.so.1.1` on Jetson.
const FIRST_MAJOR: u32 = 100;

// === impl DriverVersion ===

impl DriverVersion {
    /// The version as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DriverVersion {
    type Err = InvalidDriverVersion;

    fn from_str(text: &str) -> Result<Self, InvalidDriverVersion> {
        let is_number =
            |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let parts: Vec<&str> = text.split('.').collect();
        let major = parts.first().and_then(|major| major.parse().ok());
        let is_version = (2..=3).contains(&parts.len())
            && parts.iter().all(|part| is_number(part))
            && major.is_some_and(|major: u32| major >= FIRST_MAJOR);
        if is_version {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDriverVersion {
                text: text.to_owned(),
            })
        }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_or_three_numbers() {
        for text in ["580.82.07", "535.261.03", "418.39", "610.43"] {
            let version: DriverVersion = text.parse().unwrap();
            assert_eq!(version.to_string(), text);
        }
    }

    #[test]
    fn the_version_of_another_thing_is_refused() {
        for text in [
            "",
            "1",
            "580",
            "1.1",
            "1.1.13",
            "580.",
            "580.82.",
            "580.82.07.1",
            "580.82.x",
            "580.*",
            "../580.82",
            "580.82/..",
            "+580.82",
            " 580.82",
            "580.82.00007",
        ] {
            let error = text.parse::<DriverVersion>().unwrap_err();
            assert_eq!(error.code(), "driver-version-invalid", "{text}");
        }
    }
}
