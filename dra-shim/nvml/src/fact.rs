//! Properties that may not exist, or that cannot be read.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::nvml_failure::{NvmlCode, NvmlFailure};

/// A property of a host or of a device. One that cannot be read costs only itself.
///
/// In JSON: the value, `null`, or `{"failed": {"call": "…", "reason": "…"}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// The value.
    Known(T),
    /// The device, the driver or the kernel does not have the property.
    #[default]
    Absent,
    /// It exists or may exist, but cannot be read.
    Failed(Failure),
}

/// Why a property cannot be read. Displays as `nvmlDeviceGetUUID returned NVML_ERROR_GPU_IS_LOST (15)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The function of `nvml.h`, or the file.
    pub call: String,
    /// What happened to the call: the end of a sentence that begins with it.
    pub reason: String,
    /// NVML's return code, if the function returned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
}

/// [`Fact`] in JSON, unless it is `null`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Present<T, F> {
    Failed { failed: F },
    Known(T),
}

// === impl Fact ===

impl<T> Fact<T> {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Failed(_) => None,
        }
    }

    /// The failure, if it cannot be read.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Known(_) | Self::Absent => None,
        }
    }

    /// The value of this fact, or of `other` if only that one is known.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(value), _) | (_, Self::Known(value)) => Self::Known(value),
            (Self::Absent, other) => other,
            (failed, _) => failed,
        }
    }

    /// Converts the value, if it is known, to another fact.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => convert(value),
            Self::Absent => Fact::Absent,
            Self::Failed(failure) => Fact::Failed(failure),
        }
    }

    /// Converts the value, if it is known.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(convert(value)),
            Self::Absent => Fact::Absent,
            Self::Failed(failure) => Fact::Failed(failure),
        }
    }
}

// req: GPU-1
/// A library without the function, and a GPU that does not support it, do not have the property.
impl<T> From<Result<T, NvmlFailure>> for Fact<T> {
    fn from(result: Result<T, NvmlFailure>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(NvmlFailure::SymbolMissing { .. }) => Self::Absent,
            Err(NvmlFailure::Returned { code, .. })
                if [NvmlCode::NOT_SUPPORTED, NvmlCode::FUNCTION_NOT_FOUND].contains(&code) =>
            {
                Self::Absent
            }
            Err(failure) => Self::Failed(failure.into()),
        }
    }
}

impl<T: Serialize> Serialize for Fact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let present = match self {
            Self::Known(value) => Some(Present::Known(value)),
            Self::Absent => None,
            Self::Failed(failed) => Some(Present::Failed { failed }),
        };
        present.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let present = Option::<Present<T, Failure>>::deserialize(deserializer)?;
        Ok(match present {
            None => Self::Absent,
            Some(Present::Known(value)) => Self::Known(value),
            Some(Present::Failed { failed }) => Self::Failed(failed),
        })
    }
}

// === impl Failure ===

impl Failure {
    /// Creates the failure of `call`, for `reason`: the end of a sentence that begins with the call.
    pub fn new(call: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            call: call.into(),
            reason: reason.into(),
            code: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.call, self.reason)
    }
}

impl From<NvmlFailure> for Failure {
    fn from(failure: NvmlFailure) -> Self {
        let text = failure.to_string();
        let call = failure.call().unwrap_or("NVML");
        let reason = text.strip_prefix(call).unwrap_or(&text).trim_start();
        let code = match failure {
            NvmlFailure::Returned { code, .. } => Some(code.0),
            _ => None,
        };
        Self {
            call: call.to_owned(),
            reason: reason.to_owned(),
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(fact: &Fact<u32>) -> String {
        serde_json::to_string(fact).unwrap()
    }

    #[test]
    fn a_fact_in_json_is_its_value_null_or_its_failure() {
        let lost = NvmlFailure::Returned {
            call: "nvmlDeviceGetMinorNumber",
            code: NvmlCode::GPU_IS_LOST,
        };
        let failed = r#"{"failed":{"call":"nvmlDeviceGetMinorNumber","reason":"returned NVML_ERROR_GPU_IS_LOST (15)","code":15}}"#;
        for (fact, text) in [
            (Fact::Known(3), "3"),
            (Fact::Absent, "null"),
            (Fact::from(Err(lost)), failed),
        ] {
            assert_eq!(json(&fact), text);
            assert_eq!(serde_json::from_str::<Fact<u32>>(text).unwrap(), fact);
        }
    }

    #[test]
    fn a_function_that_driver_or_gpu_does_not_have_is_absent() {
        let call = "nvmlDeviceGetAddressingMode";
        for failure in [
            NvmlFailure::SymbolMissing { call },
            NvmlFailure::Returned {
                call,
                code: NvmlCode::NOT_SUPPORTED,
            },
            NvmlFailure::Returned {
                call,
                code: NvmlCode::FUNCTION_NOT_FOUND,
            },
        ] {
            assert_eq!(Fact::<u32>::from(Err(failure)), Fact::Absent);
        }
    }
}
