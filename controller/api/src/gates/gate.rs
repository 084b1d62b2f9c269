//! The names and stages of the feature gates.

use std::fmt;

/// A feature gate of the Go driver. Only some of them have an effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the Go driver documents its gates; those with an effect here are described"
)]
pub enum Gate {
    /// The default of every alpha gate that is not set explicitly.
    AllAlpha,
    /// The default of every beta gate that is not set explicitly.
    AllBeta,
    /// IMEX daemons discover each other through `ComputeDomainClique` objects. Forced off in
    /// host-managed mode.
    ComputeDomainCliques,
    /// GPUs: allows the setting `consumableShares`.
    ConsumableShares,
    ContextualLogging,
    CrashOnNVLinkFabricErrors,
    DRAListTypeAttributes,
    DeviceMetadata,
    DynamicMIG,
    FabricManagerPartitioning,
    /// Selects host-managed mode: the administrator runs `nvidia-imex` on the hosts. Its alias is
    /// `HostManagedIMEXDaemon`.
    HostManagedIMEX,
    /// IMEX daemons address each other by DNS name. Forced off in host-managed mode.
    IMEXDaemonsWithDNSNames,
    LoggingAlphaOptions,
    LoggingBetaOptions,
    /// GPUs: allows claims to select the sharing strategy `MPS`.
    MPSSupport,
    NVMLDeviceHealthCheck,
    PassthroughSupport,
    /// GPUs: allows claims to select the sharing strategy `TimeSlicing`.
    TimeSlicingSettings,
}

/// The maturity of a gate, which decides its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Off, unless `AllAlpha` is on.
    Alpha,
    /// On, unless `AllBeta` is off.
    Beta,
    /// `AllAlpha` and `AllBeta` themselves: off.
    Group,
}

/// The name of [`Gate::HostManagedIMEX`] in the released Go driver. Here it is an alias.
pub(super) const HOST_MANAGED_ALIAS: &str = "HostManagedIMEXDaemon";

// === impl Gate ===

impl Gate {
    /// Every gate, in alphabetical order.
    pub(super) const ALL: [Self; 18] = [
        Self::AllAlpha,
        Self::AllBeta,
        Self::ComputeDomainCliques,
        Self::ConsumableShares,
        Self::ContextualLogging,
        Self::CrashOnNVLinkFabricErrors,
        Self::DRAListTypeAttributes,
        Self::DeviceMetadata,
        Self::DynamicMIG,
        Self::FabricManagerPartitioning,
        Self::HostManagedIMEX,
        Self::IMEXDaemonsWithDNSNames,
        Self::LoggingAlphaOptions,
        Self::LoggingBetaOptions,
        Self::MPSSupport,
        Self::NVMLDeviceHealthCheck,
        Self::PassthroughSupport,
        Self::TimeSlicingSettings,
    ];

    /// The gate's name on the command line.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// Its maturity.
    pub(super) fn stage(self) -> Stage {
        self.describe().1
    }

    fn describe(self) -> (&'static str, Stage) {
        match self {
            Self::AllAlpha => ("AllAlpha", Stage::Group),
            Self::AllBeta => ("AllBeta", Stage::Group),
            Self::ComputeDomainCliques => ("ComputeDomainCliques", Stage::Beta),
            Self::ConsumableShares => ("ConsumableShares", Stage::Alpha),
            Self::ContextualLogging => ("ContextualLogging", Stage::Beta),
            Self::CrashOnNVLinkFabricErrors => ("CrashOnNVLinkFabricErrors", Stage::Beta),
            Self::DRAListTypeAttributes => ("DRAListTypeAttributes", Stage::Alpha),
            Self::DeviceMetadata => ("DeviceMetadata", Stage::Alpha),
            Self::DynamicMIG => ("DynamicMIG", Stage::Alpha),
            Self::FabricManagerPartitioning => ("FabricManagerPartitioning", Stage::Alpha),
            Self::HostManagedIMEX => ("HostManagedIMEX", Stage::Alpha),
            Self::IMEXDaemonsWithDNSNames => ("IMEXDaemonsWithDNSNames", Stage::Beta),
            Self::LoggingAlphaOptions => ("LoggingAlphaOptions", Stage::Alpha),
            Self::LoggingBetaOptions => ("LoggingBetaOptions", Stage::Beta),
            Self::MPSSupport => ("MPSSupport", Stage::Alpha),
            Self::NVMLDeviceHealthCheck => ("NVMLDeviceHealthCheck", Stage::Alpha),
            Self::PassthroughSupport => ("PassthroughSupport", Stage::Alpha),
            Self::TimeSlicingSettings => ("TimeSlicingSettings", Stage::Alpha),
        }
    }

    /// The gate of this name or alias.
    // req: MODE-6
    pub(super) fn from_name(name: &str) -> Option<Self> {
        if name == HOST_MANAGED_ALIAS {
            return Some(Self::HostManagedIMEX);
        }
        Self::ALL.into_iter().find(|gate| gate.name() == name)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
