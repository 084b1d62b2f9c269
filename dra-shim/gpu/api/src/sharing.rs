//! What a config asks for: its values checked, with defaults filled in.

use std::fmt;

use compute_domain_api::gates::{FeatureGates, Gate};

use crate::error::ConfigError;
use crate::names::DeviceType;
use crate::opaque::{MpsConfig, OpaqueConfig, SharingConfig};

/// The checked settings of a device. Configs that ask for the same are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The GPU has this time slice.
    TimeSlicing(TimeSlice),
    /// The claim's processes are clients of an MPS control daemon with these limits.
    Mps(MpsConfig),
}

/// How long a process may run on a GPU before another process gets a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSlice {
    /// The driver's default. Also if a config has no interval.
    Default,
    /// Short.
    Short,
    /// Medium.
    Medium,
    /// Long.
    Long,
}

const TIME_SLICING: &str = "TimeSlicing";
const MPS: &str = "MPS";

/// MPS takes limits in MiB.
const MIB: u64 = 1 << 20;

// === impl OpaqueConfig ===

impl OpaqueConfig {
    /// Checks the values, and fills in defaults. `None` if the config changes nothing: it has no `sharing`, or
    /// selects time slicing for a MIG device, which has no setting.
    ///
    /// # Errors
    /// The strategy's feature gate is off, or a value is invalid.
    // req: GPU-16
    pub fn sharing(&self, gates: &FeatureGates) -> Result<Option<Sharing>, ConfigError> {
        match self.sharing.as_ref().map(|it| it.strategy.as_str()) {
            Some(TIME_SLICING) => require_gate(gates, TIME_SLICING, Gate::TimeSlicingSettings)?,
            Some(MPS) => require_gate(gates, MPS, Gate::MPSSupport)?,
            _ => {}
        }
        self.recorded_sharing()
    }

    /// As [`OpaqueConfig::sharing`], whatever the feature gates are.
    pub(crate) fn recorded_sharing(&self) -> Result<Option<Sharing>, ConfigError> {
        let Some(config) = &self.sharing else {
            return Ok(None);
        };
        match config.strategy.as_str() {
            TIME_SLICING => {
                require_absent(config.mps.as_ref(), "mpsConfig", TIME_SLICING)?;
                let time_slice = time_slice(config)?;
                let is_set = self.device_type == DeviceType::Gpu;
                Ok(is_set.then_some(Sharing::TimeSlicing(time_slice)))
            }
            MPS => {
                require_absent(config.time_slicing.as_ref(), "timeSlicingConfig", MPS)?;
                let mps = config.mps.clone().unwrap_or_default();
                check_mps(&mps)?;
                Ok(Some(Sharing::Mps(mps)))
            }
            strategy => Err(ConfigError::UnknownStrategy {
                strategy: strategy.to_owned(),
            }),
        }
    }
}

fn require_gate(
    gates: &FeatureGates,
    strategy: &'static str,
    gate: Gate,
) -> Result<(), ConfigError> {
    if gates.enabled(gate) {
        Ok(())
    } else {
        Err(ConfigError::GateOff { strategy, gate })
    }
}

fn require_absent<T>(
    config: Option<&T>,
    field: &'static str,
    strategy: &'static str,
) -> Result<(), ConfigError> {
    match config {
        None => Ok(()),
        Some(_) => Err(ConfigError::OtherStrategy { field, strategy }),
    }
}

fn time_slice(config: &SharingConfig) -> Result<TimeSlice, ConfigError> {
    let config = config.time_slicing.as_ref();
    let Some(interval) = config.and_then(|config| config.interval.as_deref()) else {
        return Ok(TimeSlice::Default);
    };
    TimeSlice::of(interval).ok_or_else(|| ConfigError::UnknownInterval {
        interval: interval.to_owned(),
    })
}

fn check_mps(mps: &MpsConfig) -> Result<(), ConfigError> {
    let percentage = mps.active_thread_percentage;
    if let Some(percentage) = percentage.filter(|it| !(0..=100).contains(it)) {
        return Err(ConfigError::ThreadPercentage { percentage });
    }
    let is_too_low = |limit: &u64| *limit < MIB;
    if mps.pinned_memory_limit.as_ref().is_some_and(is_too_low) {
        return Err(ConfigError::LimitTooLow {
            field: "defaultPinnedDeviceMemoryLimit".to_owned(),
        });
    }
    let mut by_device = mps.pinned_memory_limits.iter();
    match by_device.find(|(_, limit)| is_too_low(limit)) {
        None => Ok(()),
        Some((device, _)) => Err(ConfigError::LimitTooLow {
            field: format!("defaultPerDevicePinnedMemoryLimit of device {device:?}"),
        }),
    }
}

// === impl Sharing ===

impl Sharing {
    /// Whether a device has the same settings in two claims, which may share it only then. The default time slice is
    /// that of a device without settings.
    // req: GPU-53
    pub fn are_equal(one: Option<&Self>, other: Option<&Self>) -> bool {
        let settings = |it: &&Self| **it != Self::TimeSlicing(TimeSlice::Default);
        one.filter(settings) == other.filter(settings)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeSlicing(interval) => {
                write!(f, "{TIME_SLICING} with the interval {}", interval.as_str())
            }
            Self::Mps(_) => f.write_str(MPS),
        }
    }
}

// === impl TimeSlice ===

impl TimeSlice {
    /// All. The index of each is its number in `nvidia-smi compute-policy --set-timeslice`.
    pub const ALL: [Self; 4] = [Self::Default, Self::Short, Self::Medium, Self::Long];

    /// The time slice of this value of `interval`.
    pub fn of(interval: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == interval)
    }

    /// The value of `interval`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Short => "Short",
            Self::Medium => "Medium",
            Self::Long => "Long",
        }
    }
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
