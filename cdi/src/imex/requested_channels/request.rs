//! The requests of a container, and where they were found.

use std::collections::BTreeSet;
use std::fmt;

use dra_common::OneLine;

use crate::ChannelId;

/// The most distinct requests that are kept: twice those of a container with a node and a rule for
/// each of NVIDIA's 2048 channels.
pub(super) const MAX_REQUESTS: usize = 8192;

/// The channels that a container requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedChannels {
    /// The distinct requests, by source: devices, rules, mounts, variables, annotations, CDI
    /// devices. Beyond 8192, one last request for every channel stands for the rest.
    pub requests: Vec<RequestedChannel>,
    /// Whether the container may use every device, like a privileged one: it has every channel
    /// whose node it finds or creates.
    pub every_device: bool,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestedChannel {
    /// The requested channels.
    pub channels: Channels,
    /// Where the request was found.
    pub by: RequestSource,
}

/// The channels of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channels {
    /// One channel.
    One(ChannelId),
    /// All that the host has.
    Every,
    /// Text that is not a channel here; another reader may accept it.
    Unreadable(String),
}

/// Where a request was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RequestSource {
    /// The device node at this path.
    Device(String),
    /// The device cgroup.
    DeviceRule,
    /// The mount at this path.
    Mount(String),
    /// The mount at this path, which NVIDIA's runtime reads as a request.
    VolumeRequest(String),
    /// The environment variable.
    Variable(&'static str),
    /// The annotation with this key.
    Annotation(String),
    /// The CDI device of this name.
    CdiDevice(String),
}

/// The requests found so far.
#[derive(Default)]
pub(super) struct RequestCollector {
    pub(super) requested: RequestedChannels,
    seen: BTreeSet<RequestedChannel>,
}

// === impl Found ===

impl RequestCollector {
    pub(super) fn add(&mut self, channels: Channels, by: RequestSource) {
        let mut requested = RequestedChannel { channels, by };
        match self.seen.len() {
            ..MAX_REQUESTS => {}
            MAX_REQUESTS => requested.channels = Channels::Every,
            _ => return,
        }
        if self.seen.insert(requested.clone()) {
            self.requested.requests.push(requested);
        }
    }
}

// === impl RequestedChannels ===

impl RequestedChannels {
    /// Whether there is nothing to decide: no request, and not every device.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && !self.every_device
    }
}

// === impl RequestSource ===

impl RequestSource {
    /// Whether a container that may use every device has this without a request: its nodes are the
    /// host's, and its device cgroup forbids nothing.
    pub fn is_implied_by_every_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::DeviceRule)
    }
}

/// `IMEX channel 3 (environment variable NVIDIA_IMEX_CHANNELS)`.
impl fmt::Display for RequestedChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.channels, self.by)
    }
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(id) => write!(f, "IMEX channel {id}"),
            Self::Every => f.write_str("every IMEX channel"),
            Self::Unreadable(text) => {
                let shown: String = text.chars().take(40).collect();
                write!(f, "IMEX channel {shown:?}")
            }
        }
    }
}

impl fmt::Display for RequestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(path) => write!(f, "device {}", OneLine(path)),
            Self::DeviceRule => f.write_str("device cgroup"),
            Self::Mount(path) => write!(f, "mount at {}", OneLine(path)),
            Self::VolumeRequest(path) => {
                write!(f, "mount at {}, which requests channels", OneLine(path))
            }
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Annotation(key) => write!(f, "annotation {}", OneLine(key)),
            Self::CdiDevice(name) => write!(f, "CDI device {}", OneLine(name)),
        }
    }
}
