//! The IMEX settings, which the controller and the kubelet plugin resolve at start by the same rules.

mod error;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub use error::SettingsError;

use crate::gates::{FeatureGates, Gate, parse_bool};

/// The options as the user set them. An empty string means unset, because the chart renders an unset value as `""`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImexOptions<'a> {
    /// Chart `featureGates`, `--feature-gates`, `FEATURE_GATES`.
    pub feature_gates: &'a str,
    /// Chart `resources.computeDomains.imex.mode`, `--imex-mode`, `IMEX_MODE`.
    pub mode: &'a str,
    /// Chart `resources.computeDomains.imex.isolation`, `--imex-isolation`, `IMEX_ISOLATION`.
    pub isolation: &'a str,
    /// Chart `resources.computeDomains.imex.sharing`, `--imex-sharing`, `IMEX_SHARING`.
    pub sharing: &'a str,
    /// Chart `resources.computeDomains.imex.slots`, `--imex-slots`, `IMEX_SLOTS`.
    pub slots: &'a str,
    /// Chart `resources.computeDomains.imex.channelCount`, `--imex-channel-count`,
    /// `IMEX_CHANNEL_COUNT`.
    pub channel_count: &'a str,
    /// Chart `resources.computeDomains.imex.groupClaims`, `--imex-group-claims`,
    /// `IMEX_GROUP_CLAIMS`.
    pub group_claims: &'a str,
    /// Chart `resources.computeDomains.imex.hostSocketPath`, `--imex-host-socket-path`,
    /// `IMEX_HOST_SOCKET_PATH`.
    pub host_socket_path: &'a str,
    /// Chart `resources.computeDomains.imex.withoutClique`, `--imex-without-clique`,
    /// `IMEX_WITHOUT_CLIQUE`.
    pub without_clique: &'a str,
    /// Chart `resources.computeDomains.imex.degradedFabric`, `--imex-degraded-fabric`,
    /// `IMEX_DEGRADED_FABRIC`.
    pub degraded_fabric: &'a str,
}

/// The resolved and checked options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who runs the IMEX daemons.
    pub mode: Mode,
    /// What isolates `ComputeDomains` of one fabric from each other.
    pub isolation: Isolation,
    /// Whether a node's device serves one claim or many at a time.
    pub sharing: Sharing,
    /// Number of IMEX channels of each node. `ComputeDomains` have channels below it.
    pub channel_count: u32,
    /// Whether the claim of a group of pods can be allocated a channel of a clique.
    pub group_claims: bool,
    /// Control socket of the host's IMEX daemon, as a path on the host. `None`: the daemon is not probed. Always
    /// `None` in driver-managed mode, where the daemon is always probed.
    pub host_socket_path: Option<PathBuf>,
    /// Placement of claims on a node that definitely has no clique.
    pub without_clique: Placement,
    /// Placement of claims on a node with a degraded fabric: a GPU is missing from the clique or reports a problem.
    pub degraded_fabric: Placement,
    /// The value of every gate, including gates that the mode has forced.
    pub gates: FeatureGates,
    /// Gates that the mode has changed.
    pub forced: Vec<ForcedGate>,
    /// Warnings about accepted values, to be logged.
    pub warnings: Vec<SettingsWarning>,
}

/// Who runs the IMEX daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The administrator runs `nvidia-imex` on the hosts.
    HostManaged,
    /// The driver runs one permanent `nvidia-imex` on each node, whose peers are the nodes of the clique.
    DriverManaged,
}

/// What isolates `ComputeDomains` of one fabric from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Nothing: every workload gets channel 0.
    None,
    /// Each `ComputeDomain` has its own channel.
    Channel,
}

/// Whether a node's device serves one claim or many at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One at a time, as with the Go driver.
    One,
    /// As many as there are slots, if the API server stores the necessary fields (feature gate
    /// `DRAConsumableCapacity`, on by default since Kubernetes 1.36); otherwise one.
    Many {
        /// Number of slots. A claim that does not request one slot takes all of them.
        slots: u32,
    },
}

/// Whether the scheduler may place new claims on a node with a fabric problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Yes: the device is published as on any other node.
    #[default]
    Publish,
    /// Only claims that tolerate it: the device has a taint with the effect `NoSchedule`.
    Taint,
}

/// A gate that the mode has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedGate {
    /// The gate.
    pub gate: Gate,
    /// Its new value.
    pub value: bool,
}

/// An accepted value that does not mean what a user may expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// `isolation=domain`, the Go driver's name for no isolation in host-managed mode.
    IsolationDomain,
}

/// Default number of slots: what a slice of devices could hold.
const DEFAULT_SLOTS: u32 = 64;

/// Channels for the claims of groups of pods, if such claims are enabled. Channel 0 belongs to no ComputeDomain, and
/// all channels of a clique fit into two `ResourceSlices`.
pub const GROUP_CHANNELS: RangeInclusive<u32> = 1..=127;

/// The driver's default for its module parameter `NVreg_ImexChannelCount`.
const DEFAULT_CHANNEL_COUNT: u32 = 2048;

/// Gates that host-managed mode forces off: both concern IMEX daemons in pods, which it does not have.
// req: MODE-2
const FORCED_OFF: [Gate; 2] = [Gate::IMEXDaemonsWithDNSNames, Gate::ComputeDomainCliques];

// === impl ImexOptions ===

impl ImexOptions<'_> {
    /// Resolves the options, once at start.
    ///
    /// The gates are checked against each other last, after the mode has forced some of them off. So
    /// `HostManagedIMEX=true` is enough to select host-managed mode.
    ///
    /// # Errors Configuration errors: the program cannot start until its options are changed.
    // req: MODE-4
    pub fn resolve(&self) -> Result<Settings, SettingsError> {
        let mut gates: FeatureGates = self.feature_gates.parse()?;
        let mode = resolve_mode(self.mode, gates.enabled(Gate::HostManagedIMEX))?;
        let (isolation, warnings) = resolve_isolation(self.isolation, mode)?;
        let sharing = resolve_sharing(self.sharing, isolation, resolve_slots(self.slots)?)?;
        let channel_count = resolve_channel_count(self.channel_count)?;
        let group_claims = resolve_group_claims(self.group_claims)?;
        let host_socket_path = resolve_socket(self.host_socket_path, mode)?;
        let without_clique =
            resolve_placement(self.without_clique, default_without_clique(mode, isolation))
                .map_err(|value| SettingsError::UnknownWithoutClique { value })?;
        let degraded_fabric = resolve_placement(self.degraded_fabric, Placement::Publish)
            .map_err(|value| SettingsError::UnknownDegradedFabric { value })?;
        let forced = resolve_gates(mode, &mut gates)?;
        let settings = Settings {
            mode,
            isolation,
            sharing,
            channel_count,
            group_claims,
            host_socket_path,
            without_clique,
            degraded_fabric,
            gates,
            forced,
            warnings,
        };
        if isolation == Isolation::Channel && settings.domain_channels().is_empty() {
            return Err(SettingsError::NoDomainChannels { channel_count });
        }
        Ok(settings)
    }
}

// === impl Settings ===

impl Settings {
    /// Channels for `ComputeDomains`, if each has its own.
    // req: CHANNEL-19
    pub fn domain_channels(&self) -> RangeInclusive<u32> {
        let first = if self.group_claims {
            GROUP_CHANNELS.end() + 1
        } else {
            1
        };
        first..=self.last_channel()
    }

    /// Channels for claims of groups. Empty if such claims are disabled.
    pub fn group_channels(&self) -> RangeInclusive<u32> {
        let last = if self.group_claims {
            self.last_channel().min(*GROUP_CHANNELS.end())
        } else {
            0
        };
        *GROUP_CHANNELS.start()..=last
    }

    fn last_channel(&self) -> u32 {
        self.channel_count.saturating_sub(1)
    }
}

// req: MODE-1, MODE-7, MODE-11, MODE-12
fn resolve_mode(mode: &str, host_managed_gate: bool) -> Result<Mode, SettingsError> {
    match (mode, host_managed_gate) {
        ("" | "hostManaged", true) => Ok(Mode::HostManaged),
        ("" | "driverManaged", false) => Ok(Mode::DriverManaged),
        ("hostManaged", false) => Err(SettingsError::ModeNeedsGate),
        ("driverManaged", true) => Err(SettingsError::ModeExcludesGate),
        (other, _) => Err(SettingsError::UnknownMode {
            value: other.to_owned(),
        }),
    }
}

// req: MODE-8, MODE-14
fn resolve_isolation(
    isolation: &str,
    mode: Mode,
) -> Result<(Isolation, Vec<SettingsWarning>), SettingsError> {
    match (isolation, mode) {
        // In driver-managed mode, `domain` is the Go driver's name for what channels do here: pods can access only
        // the memory of their own ComputeDomain.
        ("channel", _) | ("" | "domain", Mode::DriverManaged) => {
            Ok((Isolation::Channel, Vec::new()))
        }
        ("none", Mode::DriverManaged) => Err(SettingsError::DriverManagedWithoutIsolation),
        ("" | "none", Mode::HostManaged) => Ok((Isolation::None, Vec::new())),
        ("domain", Mode::HostManaged) => {
            Ok((Isolation::None, vec![SettingsWarning::IsolationDomain]))
        }
        (other, _) => Err(SettingsError::UnknownIsolation {
            value: other.to_owned(),
        }),
    }
}

/// Default for nodes without a clique. On hosts that run `nvidia-imex` with isolation by channel, a pod without a
/// channel must not use the node's fabric, so the device is tainted. In driver-managed mode, it runs there without a
/// channel, as with the Go driver.
fn default_without_clique(mode: Mode, isolation: Isolation) -> Placement {
    match (mode, isolation) {
        (Mode::HostManaged, Isolation::Channel) => Placement::Taint,
        (Mode::HostManaged, Isolation::None) | (Mode::DriverManaged, _) => Placement::Publish,
    }
}

/// Forces the gates of the mode, then checks that the mode's gates are on and that gates do not conflict.
// req: MODE-2, MODE-15
fn resolve_gates(mode: Mode, gates: &mut FeatureGates) -> Result<Vec<ForcedGate>, SettingsError> {
    let forced = match mode {
        Mode::HostManaged => FORCED_OFF
            .into_iter()
            .filter(|gate| gates.force(*gate, false))
            .map(|gate| ForcedGate { gate, value: false })
            .collect(),
        // IMEX daemons get the members of their clique only from its ComputeDomainClique.
        Mode::DriverManaged if !gates.enabled(Gate::ComputeDomainCliques) => {
            return Err(SettingsError::DriverManagedNeedsCliques);
        }
        Mode::DriverManaged => Vec::new(),
    };
    gates.validate()?;
    Ok(forced)
}

fn resolve_sharing(
    sharing: &str,
    isolation: Isolation,
    slots: u32,
) -> Result<Sharing, SettingsError> {
    match (sharing, isolation) {
        ("one", _) | ("", Isolation::None) => Ok(Sharing::One),
        ("many", _) | ("", Isolation::Channel) => Ok(Sharing::Many { slots }),
        (other, _) => Err(SettingsError::UnknownSharing {
            value: other.to_owned(),
        }),
    }
}

fn resolve_slots(slots: &str) -> Result<u32, SettingsError> {
    match slots {
        "" => Ok(DEFAULT_SLOTS),
        text => parse_at_least(text, 1).ok_or_else(|| SettingsError::BadSlots {
            value: text.to_owned(),
        }),
    }
}

fn resolve_channel_count(count: &str) -> Result<u32, SettingsError> {
    match count {
        "" => Ok(DEFAULT_CHANNEL_COUNT),
        // Channel 0 belongs to no ComputeDomain.
        text => parse_at_least(text, 2).ok_or_else(|| SettingsError::BadChannelCount {
            value: text.to_owned(),
        }),
    }
}

fn resolve_group_claims(value: &str) -> Result<bool, SettingsError> {
    match value {
        "" => Ok(false),
        text => parse_bool(text).ok_or_else(|| SettingsError::BadGroupClaims {
            value: text.to_owned(),
        }),
    }
}

/// A number from `least` to a million, more than the pods or channels of any node.
fn parse_at_least(text: &str, least: u32) -> Option<u32> {
    let number = text.parse().ok()?;
    (least..=1_000_000).contains(&number).then_some(number)
}

// req: MODE-16
fn resolve_socket(path: &str, mode: Mode) -> Result<Option<PathBuf>, SettingsError> {
    if path.is_empty() {
        return Ok(None);
    }
    let path = PathBuf::from(path);
    match mode {
        Mode::DriverManaged => Err(SettingsError::DriverManagedHostSocket { path }),
        Mode::HostManaged if path.is_absolute() => Ok(Some(path)),
        Mode::HostManaged => Err(SettingsError::RelativeSocketPath { path }),
    }
}

/// The placement; the value itself if it is unknown.
fn resolve_placement(value: &str, default: Placement) -> Result<Placement, String> {
    match value {
        "" => Ok(default),
        "publish" => Ok(Placement::Publish),
        "taint" => Ok(Placement::Taint),
        other => Err(other.to_owned()),
    }
}

// === impl Mode, Isolation, Sharing, Placement, ForcedGate, SettingsWarning ===

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostManaged => f.write_str("hostManaged"),
            Self::DriverManaged => f.write_str("driverManaged"),
        }
    }
}

impl Isolation {
    /// The effect on workloads: a clause for the log at start.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::None => {
                "every workload gets channel 0: ComputeDomains of one fabric are not isolated from each other"
            }
            Self::Channel => "each ComputeDomain has its own channel",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Channel => f.write_str("channel"),
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Many { slots } => write!(f, "many ({slots} slots)"),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publish => f.write_str("publish"),
            Self::Taint => f.write_str("taint"),
        }
    }
}

impl ForcedGate {
    /// Why the mode changes this gate.
    pub fn reason(&self) -> &'static str {
        "the gate affects only IMEX daemons in pods, and host-managed mode has no such daemons"
    }
}

impl fmt::Display for SettingsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsolationDomain => f.write_str(
                "imex.isolation=\"domain\" is treated as \"none\": in host-managed mode, ComputeDomains are not isolated from each other",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
