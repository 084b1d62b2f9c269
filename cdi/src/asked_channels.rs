//! Which IMEX channels a container asks for, by whatever way: the facts for a decision
//! about a container, made from its config alone.
//!
//! | source | read as | who gives the channel |
//! |---|---|---|
//! | device node of the channels' major, or below [`CHANNEL_DIR`] | its minor, else its name | the runtime |
//! | device cgroup rule of that major that lets it be read or written | its minor, or every channel | the runtime |
//! | mount from or to the directory or a channel | the name, or every channel | the kernel, where the device cgroup lets it |
//! | `NVIDIA_IMEX_CHANNELS` | a list | NVIDIA's runtime, after all others |
//! | `/dev/null` at `/var/run/nvidia-container-devices/imex/N` | N | the same |
//! | names of CDI devices: requested, in annotations, in `NVIDIA_VISIBLE_DEVICES`, in mounts below `.../cdi` | see [`ContainerView::cdi_names`] | the runtime, NVIDIA's runtime or its NRI plugin |
//!
//! The rules of NVIDIA's are those of its container toolkit 1.20
//! (`internal/config/image/cuda_image.go`, `internal/modifier/cdi.go`,
//! `cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go`), read in doubt as a request.
//!
//! A mount of a directory above, such as `/dev`, is no request: its nodes cannot be opened,
//! as the device cgroup forbids it, unless the container may use every device.

mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use crate::one_line::OneLine;
use crate::{CHANNEL_DIR, ChannelId, DeviceNode, Major, QualifiedName};

use names::Names;

/// NVIDIA's list of channels.
const CHANNELS_VARIABLE: &str = "NVIDIA_IMEX_CHANNELS";
/// NVIDIA's list of devices, which may be names of CDI devices.
const DEVICES_VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Where NVIDIA's runtime looks for mounts of `/dev/null`, each of which is a request.
const VOLUME_REQUESTS: &str = "/var/run/nvidia-container-devices/";
/// Domains of annotations that list names of CDI devices: of the runtimes, of NVIDIA's NRI
/// plugin, and of NRI's plugin `device-injector`.
const ANNOTATIONS: [&str; 3] = [
    "cdi.k8s.io",
    "nvidia.cdi.k8s.io",
    "cdi-devices.noderesource.dev",
];
/// How many requests are told apart: twice what a container has with a node and a rule for
/// each of NVIDIA's 2048 channels.
const MAX_REQUESTS: usize = 8192;

/// What is known of a container, borrowed from wherever that stands.
#[derive(Debug, Clone, Default)]
pub struct ContainerView<'a> {
    /// Its name in the pod, for annotations that are for one container.
    pub name: &'a str,
    /// `NAME=value`.
    pub env: Vec<&'a str>,
    /// Its annotations and its pod's, as key and value.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// The CDI devices that it requests by name. One is a channel if `resolve` of
    /// [`asked_channels`] says so, if its kind is that of [claims](crate::Kind::compute_domain_claim),
    /// if its class is `imex-channel`, or if it is one of `management.nvidia.com/gpu`,
    /// which NVIDIA gives every channel of the host.
    pub cdi_names: Vec<&'a str>,
    /// Its device nodes.
    pub devices: Vec<DeviceView<'a>>,
    /// What its device cgroup allows. Rules that deny are left out.
    pub rules: Vec<RuleView<'a>>,
    /// Its mounts.
    pub mounts: Vec<MountView<'a>>,
}

/// A device node of a container.
#[derive(Debug, Clone, Copy)]
pub struct DeviceView<'a> {
    /// Path in the container.
    pub path: &'a str,
    /// `c`, `u`, `b` or `p`.
    pub device_type: &'a str,
    /// Device major.
    pub major: i64,
    /// Device minor.
    pub minor: i64,
}

/// A rule of the device cgroup that allows something.
#[derive(Debug, Clone, Copy)]
pub struct RuleView<'a> {
    /// `c` or `b`; `a` or empty for both.
    pub device_type: &'a str,
    /// Device major; `None` or less than 0 for all.
    pub major: Option<i64>,
    /// Device minor; `None` or less than 0 for all.
    pub minor: Option<i64>,
    /// Letters of `rwm`; without `r` and `w` no device can be opened.
    pub access: &'a str,
}

/// A mount of a container.
#[derive(Debug, Clone, Copy)]
pub struct MountView<'a> {
    /// Path on the host.
    pub source: &'a str,
    /// Path in the container.
    pub destination: &'a str,
}

/// What a container asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedChannels {
    /// Each request, in the order of the table above; no two are equal. With more than 8192
    /// the last one stands for all that are left, and is for every channel.
    pub requests: Vec<Asked>,
    /// Whether the container may use every device, as one that is privileged may: it has
    /// every channel whose node it finds or makes.
    pub every_device: bool,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    /// What is asked for.
    pub channels: Channels,
    /// Where.
    pub by: AskedBy,
}

/// The channels of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channels {
    /// One channel.
    One(ChannelId),
    /// All that the host has.
    Every,
    /// Text that is not a channel: whoever reads it may think otherwise.
    Unreadable(String),
}

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AskedBy {
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

/// Which channels a container asks for. `major` is that of the channels, if it is known.
/// `resolve` returns the device nodes of a CDI device, if it knows the device; names are given
/// to it that nobody resolves.
///
/// Linear in the container's size; no I/O but that of `resolve`.
pub fn asked_channels(
    container: &ContainerView<'_>,
    major: Option<Major>,
    resolve: impl Fn(&QualifiedName) -> Option<Vec<DeviceNode>>,
) -> AskedChannels {
    let names = Names { major, resolve };
    let mut found = Found::default();
    let major = major.map(|major| i64::from(major.get()));
    for device in &container.devices {
        if let Some(channels) = of_device(device, major) {
            found.add(channels, AskedBy::Device(device.path.to_owned()));
        }
    }
    for rule in &container.rules {
        match of_rule(rule, major) {
            Allowed::EveryDevice => found.asked.every_device = true,
            Allowed::Channels(channels) => found.add(channels, AskedBy::DeviceRule),
            Allowed::Nothing => {}
        }
    }
    for mount in &container.mounts {
        of_mount(mount, &names, &mut found);
    }
    for assignment in &container.env {
        match assignment.split_once('=') {
            Some((CHANNELS_VARIABLE, list)) => {
                for channels in listed(list) {
                    found.add(channels, AskedBy::Variable(CHANNELS_VARIABLE));
                }
            }
            Some((DEVICES_VARIABLE, list)) => {
                names.add_list(list, || AskedBy::Variable(DEVICES_VARIABLE), &mut found);
            }
            _ => {}
        }
    }
    for (key, list) in &container.annotations {
        if is_for(key, container.name) {
            names.add_list(list, || AskedBy::Annotation((*key).to_owned()), &mut found);
        }
    }
    for name in &container.cdi_names {
        names.add_list(name, || AskedBy::CdiDevice((*name).to_owned()), &mut found);
    }
    found.asked
}

/// What a rule of the device cgroup is to the channels.
enum Allowed {
    EveryDevice,
    Channels(Channels),
    Nothing,
}

fn of_rule(rule: &RuleView<'_>, channels: Option<i64>) -> Allowed {
    let all = |number: Option<i64>| number.is_none_or(|number| number < 0);
    if rule.device_type == "b" || !rule.access.contains(['r', 'w']) {
        Allowed::Nothing
    } else if all(rule.major) {
        Allowed::EveryDevice
    } else if rule.major != channels {
        Allowed::Nothing
    } else {
        Allowed::Channels(match rule.minor {
            Some(minor) if minor >= 0 => of_number(minor),
            _ => Channels::Every,
        })
    }
}

fn of_device(device: &DeviceView<'_>, channels: Option<i64>) -> Option<Channels> {
    let is_char = matches!(device.device_type, "c" | "u");
    if is_char && channels == Some(device.major) {
        return Some(of_number(device.minor));
    }
    of_path(&clean(device.path))
}

fn of_mount(
    mount: &MountView<'_>,
    names: &Names<impl Fn(&QualifiedName) -> Option<Vec<DeviceNode>>>,
    found: &mut Found,
) {
    let (source, destination) = (clean(mount.source), clean(mount.destination));
    for path in [&source, &destination] {
        if let Some(channels) = of_path(path) {
            found.add(channels, AskedBy::Mount(mount.destination.to_owned()));
        }
    }
    let by = || AskedBy::VolumeRequest(mount.destination.to_owned());
    let request = destination.strip_prefix(VOLUME_REQUESTS);
    match request.filter(|_| source == "/dev/null") {
        Some(request) if request.starts_with("imex/") => {
            found.add(of_text(request.trim_start_matches("imex/")), by());
        }
        Some(request) if request.starts_with("cdi/") => {
            // <vendor>/<class>=<device>, or with a third / in place of the =.
            let name = request.trim_start_matches("cdi/");
            let is_name = name.parse::<QualifiedName>().is_ok();
            let name = match name.match_indices('/').nth(1) {
                Some((at, _)) if !is_name => {
                    let (kind, device) = name.split_at(at);
                    format!("{kind}={}", device.trim_start_matches('/'))
                }
                _ => name.to_owned(),
            };
            names.add_list(&name, by, found);
        }
        _ => {}
    }
}

/// The channel at a path, or every channel for their directory; `None` for any other path.
fn of_path(path: &str) -> Option<Channels> {
    let below = path.strip_prefix(CHANNEL_DIR)?;
    match below.strip_prefix('/') {
        None if below.is_empty() => Some(Channels::Every),
        None => None,
        Some(name) => Some(of_text(name)),
    }
}

/// The channels of `NVIDIA_IMEX_CHANNELS`.
fn listed(list: &str) -> impl Iterator<Item = Channels> {
    let items = list.split(',').map(str::trim);
    items
        .filter(|item| !matches!(*item, "" | "none" | "void"))
        .map(of_text)
}

/// `3`, `channel3` or `all`.
fn of_text(text: &str) -> Channels {
    let number = text.strip_prefix("channel").unwrap_or(text);
    if number == "all" {
        return Channels::Every;
    }
    let id = number.parse().ok().and_then(|id| ChannelId::new(id).ok());
    id.map_or_else(|| Channels::Unreadable(text.to_owned()), Channels::One)
}

fn of_number(number: i64) -> Channels {
    let id = u32::try_from(number).ok();
    let id = id.and_then(|id| ChannelId::new(id).ok());
    id.map_or_else(|| Channels::Unreadable(number.to_string()), Channels::One)
}

/// Whether an annotation lists CDI devices for this container: `domain`, `domain/...`, but
/// not `domain/container.<another one's name>`.
fn is_for(key: &str, container: &str) -> bool {
    let rest = ANNOTATIONS.iter().find_map(|domain| {
        let rest = key.strip_prefix(domain)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    });
    rest.is_some_and(|rest| {
        let other = rest.strip_prefix("/container.");
        other.is_none_or(|name| container.is_empty() || name == container)
    })
}

/// As Go's `filepath.Clean` for an absolute path.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

/// The requests found so far.
#[derive(Default)]
struct Found {
    asked: AskedChannels,
    seen: BTreeSet<Asked>,
}

// === impl Found ===

impl Found {
    fn add(&mut self, channels: Channels, by: AskedBy) {
        let mut asked = Asked { channels, by };
        match self.seen.len() {
            ..MAX_REQUESTS => {}
            MAX_REQUESTS => asked.channels = Channels::Every,
            _ => return,
        }
        if self.seen.insert(asked.clone()) {
            self.asked.requests.push(asked);
        }
    }
}

// === impl AskedChannels ===

impl AskedChannels {
    /// Whether there is nothing to decide: no request, and not every device.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && !self.every_device
    }
}

// === impl AskedBy ===

impl AskedBy {
    /// Whether a container that may use every device has this by that, without anybody's
    /// asking: its nodes are the host's, and its device cgroup forbids nothing.
    pub fn follows_from_every_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::DeviceRule)
    }
}

/// `IMEX channel 3 (environment variable NVIDIA_IMEX_CHANNELS)`.
impl fmt::Display for Asked {
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

impl fmt::Display for AskedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(path) => write!(f, "device {}", OneLine(path)),
            Self::DeviceRule => f.write_str("device cgroup"),
            Self::Mount(path) => write!(f, "mount at {}", OneLine(path)),
            Self::VolumeRequest(path) => write!(f, "request by a mount at {}", OneLine(path)),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Annotation(key) => write!(f, "annotation {}", OneLine(key)),
            Self::CdiDevice(name) => write!(f, "CDI device {}", OneLine(name)),
        }
    }
}
