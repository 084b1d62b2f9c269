//! Failed NVML calls, as values that can be stored and compared.

use std::fmt;

use dra_common::{Advice, joined_lines};

/// A return code of NVML (`nvmlReturn_t`).
///
/// Displays as its name in `nvml.h` and the number. An unknown code displays as the number,
/// signed like C's enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NvmlCode(pub u32);

/// Failure of an NVML call.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[advice(
    hint = "run nvidia-smi -L on the host; the driver may be damaged, or the library may not be NVIDIA's"
)]
pub enum NvmlFailure {
    /// The function was called and returned an error.
    #[error("{call} returned {code}")]
    #[advice(code = "nvml-error", hint = code.hint())]
    Returned {
        /// The function's name in `nvml.h`.
        call: &'static str,
        /// The return code.
        code: NvmlCode,
    },
    /// The library has no such function.
    #[error("the library has no {call}")]
    #[advice(code = "nvml-symbol-missing", hint = NEWER_DRIVER)]
    SymbolMissing {
        /// The function's name in `nvml.h`.
        call: &'static str,
    },
    /// The function returned text that is not printable UTF-8.
    #[error("{call} returned text that is not printable UTF-8")]
    #[advice(code = "nvml-bad-text")]
    NotText {
        /// The function's name in `nvml.h`.
        call: &'static str,
    },
    /// The function filled its whole buffer, without a NUL byte at the end.
    #[error("{call} returned text without a terminating NUL")]
    #[advice(code = "nvml-bad-text")]
    Unterminated {
        /// The function's name in `nvml.h`.
        call: &'static str,
    },
    /// The function returned success without writing a result.
    #[error("{call} returned success but wrote no result")]
    #[advice(code = "nvml-implausible")]
    WroteNothing {
        /// The function's name in `nvml.h`.
        call: &'static str,
    },
    /// The function returned more GPUs than a host can have.
    #[error("{call} returned {count} GPUs, more than a host can have")]
    #[advice(code = "nvml-implausible")]
    TooManyGpus {
        /// The function's name in `nvml.h`.
        call: &'static str,
        /// The returned number.
        count: u32,
    },
    /// The probe panicked. The next read is independent.
    #[error("the probe panicked: {}", joined_lines(message, 200))]
    #[advice(
        code = "nvml-probe-panicked",
        hint = "this is a bug; please report it with the log of the process"
    )]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

/// The hint for a library without a required function.
const NEWER_DRIVER: &str = "install a newer NVIDIA driver on this host";

// === impl NvmlCode ===

impl NvmlCode {
    /// `NVML_SUCCESS`.
    pub const SUCCESS: Self = Self(0);
    /// `NVML_ERROR_UNINITIALIZED`.
    pub const UNINITIALIZED: Self = Self(1);
    /// `NVML_ERROR_INVALID_ARGUMENT`.
    pub const INVALID_ARGUMENT: Self = Self(2);
    /// `NVML_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: Self = Self(3);
    /// `NVML_ERROR_NO_PERMISSION`.
    pub const NO_PERMISSION: Self = Self(4);
    /// `NVML_ERROR_NOT_FOUND`.
    pub const NOT_FOUND: Self = Self(6);
    /// `NVML_ERROR_DRIVER_NOT_LOADED`.
    pub const DRIVER_NOT_LOADED: Self = Self(9);
    /// `NVML_ERROR_TIMEOUT`.
    pub const TIMEOUT: Self = Self(10);
    /// `NVML_ERROR_FUNCTION_NOT_FOUND`.
    pub const FUNCTION_NOT_FOUND: Self = Self(13);
    /// `NVML_ERROR_GPU_IS_LOST`.
    pub const GPU_IS_LOST: Self = Self(15);
    /// `NVML_ERROR_RESET_REQUIRED`.
    pub const RESET_REQUIRED: Self = Self(16);
    /// `NVML_ERROR_LIB_RM_VERSION_MISMATCH`.
    pub const LIB_RM_VERSION_MISMATCH: Self = Self(18);
    /// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`.
    pub const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    /// `NVML_ERROR_UNKNOWN`.
    pub const UNKNOWN: Self = Self(999);

    /// The name in `nvml.h`, if known.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "NVML_SUCCESS",
            1 => "NVML_ERROR_UNINITIALIZED",
            2 => "NVML_ERROR_INVALID_ARGUMENT",
            3 => "NVML_ERROR_NOT_SUPPORTED",
            4 => "NVML_ERROR_NO_PERMISSION",
            5 => "NVML_ERROR_ALREADY_INITIALIZED",
            6 => "NVML_ERROR_NOT_FOUND",
            7 => "NVML_ERROR_INSUFFICIENT_SIZE",
            8 => "NVML_ERROR_INSUFFICIENT_POWER",
            9 => "NVML_ERROR_DRIVER_NOT_LOADED",
            10 => "NVML_ERROR_TIMEOUT",
            11 => "NVML_ERROR_IRQ_ISSUE",
            12 => "NVML_ERROR_LIBRARY_NOT_FOUND",
            13 => "NVML_ERROR_FUNCTION_NOT_FOUND",
            14 => "NVML_ERROR_CORRUPTED_INFOROM",
            15 => "NVML_ERROR_GPU_IS_LOST",
            16 => "NVML_ERROR_RESET_REQUIRED",
            17 => "NVML_ERROR_OPERATING_SYSTEM",
            18 => "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            19 => "NVML_ERROR_IN_USE",
            20 => "NVML_ERROR_MEMORY",
            21 => "NVML_ERROR_NO_DATA",
            22 => "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED",
            23 => "NVML_ERROR_INSUFFICIENT_RESOURCES",
            24 => "NVML_ERROR_FREQ_NOT_SUPPORTED",
            25 => "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
            26 => "NVML_ERROR_DEPRECATED",
            27 => "NVML_ERROR_NOT_READY",
            28 => "NVML_ERROR_GPU_NOT_FOUND",
            29 => "NVML_ERROR_INVALID_STATE",
            30 => "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED",
            999 => "NVML_ERROR_UNKNOWN",
            _ => return None,
        })
    }

    /// What a user can do about the code.
    pub fn hint(self) -> &'static str {
        match self {
            Self::DRIVER_NOT_LOADED | Self::UNINITIALIZED => {
                "load the NVIDIA kernel module (modprobe nvidia) and check dmesg for NVRM lines; if it is loaded, make /dev/nvidiactl available to this process"
            }
            Self::NO_PERMISSION => {
                "let this process open /dev/nvidiactl and /dev/nvidia* (run it as root; a container also needs the devices, or must be privileged)"
            }
            Self::FUNCTION_NOT_FOUND => NEWER_DRIVER,
            Self::ARGUMENT_VERSION_MISMATCH => {
                "the driver and this program support no common version of this call: install a newer driver or a newer version of this program"
            }
            Self::LIB_RM_VERSION_MISMATCH => {
                "the library and the loaded kernel module have different driver versions: reload the module or reboot"
            }
            Self::GPU_IS_LOST | Self::RESET_REQUIRED => {
                "reset the GPU (nvidia-smi --gpu-reset) or reboot, and check dmesg for Xid lines"
            }
            // NVML also returns this after a container has lost its device cgroup rules.
            Self::UNKNOWN => {
                "run nvidia-smi on the host and check dmesg for NVRM and Xid lines; if it works there, restart this process's container"
            }
            _ => "run nvidia-smi on the host and check dmesg for NVRM and Xid lines",
        }
    }
}

// === impl NvmlFailure ===

impl NvmlFailure {
    /// The function's name in `nvml.h`.
    pub fn call(&self) -> Option<&'static str> {
        match self {
            Self::Returned { call, .. }
            | Self::SymbolMissing { call }
            | Self::NotText { call }
            | Self::Unterminated { call }
            | Self::WroteNothing { call }
            | Self::TooManyGpus { call, .. } => Some(call),
            Self::Panicked { .. } => None,
        }
    }
}

impl fmt::Display for NvmlCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "NVML error {}", self.0.cast_signed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_by_name_and_a_newer_one_by_number() {
        assert_eq!(NvmlCode(9).to_string(), "NVML_ERROR_DRIVER_NOT_LOADED (9)");
        assert_eq!(NvmlCode(777).to_string(), "NVML error 777");
        let negative = NvmlCode((-5_i32).cast_unsigned());
        assert_eq!(negative.to_string(), "NVML error -5");
    }

    #[test]
    fn the_hint_for_missing_devices_names_them() {
        let hint = |code| {
            let call = "nvmlInitWithFlags";
            NvmlFailure::Returned { call, code }.hint()
        };
        for code in [NvmlCode::NO_PERMISSION, NvmlCode::DRIVER_NOT_LOADED] {
            assert!(hint(code).contains("/dev/nvidiactl"), "{code}");
        }
        assert!(hint(NvmlCode::UNKNOWN).contains("container"));
    }

    #[test]
    fn an_unsupported_function_has_the_hint_of_a_missing_one() {
        let call = "nvmlDeviceGetGpuFabricInfoV";
        let code = NvmlCode::FUNCTION_NOT_FOUND;
        assert_eq!(
            NvmlFailure::Returned { call, code }.hint(),
            NvmlFailure::SymbolMissing { call }.hint()
        );
    }

    #[test]
    fn a_panic_message_of_several_lines_is_displayed_in_one() {
        let message = "assertion failed\n  left: 1\n right: 2".to_owned();
        assert_eq!(
            NvmlFailure::Panicked { message }.to_string(),
            "the probe panicked: assertion failed left: 1 right: 2"
        );
    }
}
