//! The IMEX channels that a container requests in any way: the facts for deciding about a
//! container, from its config alone.
//!
//! | source | read as | granted by |
//! |---|---|---|
//! | device node of the channels' major, or below [`CHANNEL_DIR`] | its minor, else its name | the runtime |
//! | device cgroup rule of that major that lets it be read or written | its minor, or every channel | the runtime |
//! | mount from or to the directory or a channel | the name, or every channel | the kernel, if the device cgroup allows it |
//! | `NVIDIA_IMEX_CHANNELS` | a list | NVIDIA's runtime, after all others |
//! | `/dev/null` at `/var/run/nvidia-container-devices/imex/N` | N | the same |
//! | names of CDI devices: requested, in annotations, in `NVIDIA_VISIBLE_DEVICES`, in mounts below `.../cdi` | see [`ContainerView::cdi_names`] | the runtime, NVIDIA's runtime or its NRI plugin |
//!
//! The rules of NVIDIA's runtime are those of its container toolkit 1.20
//! (`internal/config/image/cuda_image.go`, `internal/modifier/cdi.go`,
//! `cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go`), in doubt read as a request.
//!
//! A mount of a parent directory, such as `/dev`, is no request: the device cgroup forbids opening
//! its nodes, unless the container may use every device.

mod names;
mod read;
mod request;
#[cfg(test)]
mod tests;
mod view;

pub use request::{Channels, RequestSource, RequestedChannel, RequestedChannels};
pub use view::{ContainerView, DeviceView, MountView, RuleView};

use self::names::Names;
use self::read::{clean, of_device, of_number, of_path, of_text};
use self::request::RequestCollector;
use crate::{DeviceNode, Major, QualifiedName};

/// NVIDIA's list of channels.
const CHANNELS_VARIABLE: &str = "NVIDIA_IMEX_CHANNELS";
/// NVIDIA's list of devices, which may be names of CDI devices.
const DEVICES_VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Where NVIDIA's runtime looks for mounts of `/dev/null`, each of which is a request. It compares
/// text, not path components: `...-devicesimex/3` is a request, too.
const VOLUME_REQUESTS: &str = "/var/run/nvidia-container-devices";
/// Domain of annotations that list names of CDI devices for the runtimes, whatever follows.
const RUNTIMES_ANNOTATION: &str = "cdi.k8s.io";
/// The same for NVIDIA's NRI plugin and NRI's plugin `device-injector`; to them, the rest of the
/// key names the container.
const PLUGINS_ANNOTATIONS: [&str; 2] = ["nvidia.cdi.k8s.io", "cdi-devices.noderesource.dev"];

/// Finds the channels that a container requests. `major` is that of the channels, if known.
/// `resolve` returns the device nodes of a CDI device, if it knows the device; it also gets names
/// that no runtime resolves. NVIDIA's runtime reads text that is not a full name as a device of
/// `nvidia.com/gpu`, unless it is configured otherwise.
///
/// Linear in the container's size; no I/O but that of `resolve`.
// req: NRI-12
pub fn requested_channels(
    container: &ContainerView<'_>,
    major: Option<Major>,
    resolve: impl Fn(&QualifiedName) -> Option<Vec<DeviceNode>>,
) -> RequestedChannels {
    let names = Names { major, resolve };
    let mut found = RequestCollector::default();
    let major = major.map(|major| i64::from(major.get()));
    for device in &container.devices {
        if let Some(channels) = of_device(device, major) {
            found.add(channels, RequestSource::Device(device.path.to_owned()));
        }
    }
    for rule in &container.rules {
        match of_rule(rule, major) {
            RuleEffect::EveryDevice => found.requested.every_device = true,
            RuleEffect::Channels(channels) => found.add(channels, RequestSource::DeviceRule),
            RuleEffect::Nothing => {}
        }
    }
    for mount in &container.mounts {
        of_mount(mount, &names, &mut found);
    }
    for assignment in &container.env {
        match assignment.split_once('=') {
            Some((CHANNELS_VARIABLE, list)) => {
                for channels in channels_in_variable(list) {
                    found.add(channels, RequestSource::Variable(CHANNELS_VARIABLE));
                }
            }
            Some((DEVICES_VARIABLE, list)) => {
                names.add_nvidias_list(
                    list,
                    || RequestSource::Variable(DEVICES_VARIABLE),
                    &mut found,
                );
            }
            _ => {}
        }
    }
    for (key, list) in &container.annotations {
        let by = || RequestSource::Annotation((*key).to_owned());
        if below(key, RUNTIMES_ANNOTATION).is_some() {
            names.add_nvidias_list(list, by, &mut found);
        } else if is_for(key, container.name) {
            names.add_yaml_list(list, by, &mut found);
        }
    }
    for name in &container.cdi_names {
        names.add_list(
            name,
            || RequestSource::CdiDevice((*name).to_owned()),
            &mut found,
        );
    }
    found.requested
}

/// The channels that a rule of the device cgroup allows.
enum RuleEffect {
    EveryDevice,
    Channels(Channels),
    Nothing,
}

fn of_rule(rule: &RuleView<'_>, channels: Option<i64>) -> RuleEffect {
    let all = |number: Option<i64>| number.is_none_or(|number| number < 0);
    if rule.device_type == "b" || !rule.access.contains(['r', 'w']) {
        RuleEffect::Nothing
    } else if all(rule.major) {
        RuleEffect::EveryDevice
    } else if rule.major != channels {
        RuleEffect::Nothing
    } else {
        RuleEffect::Channels(match rule.minor {
            Some(minor) if minor >= 0 => of_number(minor),
            _ => Channels::Every,
        })
    }
}

fn of_mount(
    mount: &MountView<'_>,
    names: &Names<impl Fn(&QualifiedName) -> Option<Vec<DeviceNode>>>,
    found: &mut RequestCollector,
) {
    let (source, destination) = (clean(mount.source), clean(mount.destination));
    for path in [&source, &destination] {
        if let Some(channels) = of_path(path) {
            found.add(channels, RequestSource::Mount(mount.destination.to_owned()));
        }
    }
    let by = || RequestSource::VolumeRequest(mount.destination.to_owned());
    let request = destination.strip_prefix(VOLUME_REQUESTS);
    let request = request.filter(|_| source == "/dev/null");
    let Some(request) = request.map(|request| request.trim_matches('/')) else {
        return;
    };
    if let Some(channel) = request.strip_prefix("imex/") {
        found.add(of_text(channel), by());
    } else if let Some(name) = request.strip_prefix("cdi/") {
        // <vendor>/<class>=<device>, or with a third / in place of the =.
        let is_name = name.parse::<QualifiedName>().is_ok();
        let name = match name.match_indices('/').nth(1) {
            Some((at, _)) if !is_name => {
                let (kind, device) = name.split_at(at);
                format!("{kind}={}", device.trim_start_matches('/'))
            }
            _ => name.to_owned(),
        };
        names.add_list(&name, by, found);
    } else {
        names.add_nvidias_list(request, by, found);
    }
}

/// The channels of `NVIDIA_IMEX_CHANNELS`.
fn channels_in_variable(list: &str) -> impl Iterator<Item = Channels> {
    let items = list.split(',').map(str::trim);
    items
        .filter(|item| !matches!(*item, "" | "none" | "void"))
        .map(of_text)
}

/// What follows the domain in an annotation's key: nothing, or `/...`.
fn below<'a>(key: &'a str, domain: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(domain)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Whether a plugin's annotation is for this container: `domain`, `domain/...`, but not
/// `domain/container.<another one's name>`.
fn is_for(key: &str, container: &str) -> bool {
    let mut domains = PLUGINS_ANNOTATIONS.iter();
    let rest = domains.find_map(|domain| below(key, domain));
    rest.is_some_and(|rest| {
        let other = rest.strip_prefix("/container.");
        other.is_none_or(|name| container.is_empty() || name == container)
    })
}
