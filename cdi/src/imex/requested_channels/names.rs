//! Channels requested by names of CDI devices.

use super::read::{clean, of_device, of_path, of_text};
use super::request::{Channels, RequestCollector, RequestSource};
use super::view::DeviceView;
use crate::{DeviceNode, DeviceType, Kind, Major, QualifiedName};

/// NVIDIA's class of channels (`nvidia-ctk cdi generate`, mode imex).
const CHANNEL_CLASS: &str = "imex-channel";
/// NVIDIA's kind for containers that manage the driver; they get all devices.
const MANAGEMENT_KIND: (&str, &str) = ("management.nvidia.com", "gpu");

/// The kind that NVIDIA's runtime assumes for devices without one (`default-kind`).
const DEFAULT_KIND: &str = "nvidia.com/gpu";

/// Finds the channels of a name.
pub(super) struct Names<R> {
    pub(super) major: Option<Major>,
    pub(super) resolve: R,
}

// === impl Names ===

impl<R: Fn(&QualifiedName) -> Option<Vec<DeviceNode>>> Names<R> {
    /// Adds the channels of a list of names. Text that is not a name is ignored.
    pub(super) fn add_list(
        &self,
        list: &str,
        by: impl Fn() -> RequestSource,
        found: &mut RequestCollector,
    ) {
        for name in list.split(',') {
            if let Ok(name) = name.trim().parse() {
                for channels in self.channels(&name) {
                    found.add(channels, by());
                }
            }
        }
    }

    /// Like `add_list`, for a list in YAML, as `device-injector` reads its annotation: names have
    /// no brackets, quotes or leading dashes, so those of YAML are dropped.
    pub(super) fn add_yaml_list(
        &self,
        list: &str,
        by: impl Fn() -> RequestSource,
        found: &mut RequestCollector,
    ) {
        for item in list.split(['\n', ',']) {
            let around = |c: char| c.is_whitespace() || "-[]\"'".contains(c);
            self.add_list(item.trim_matches(around), &by, found);
        }
    }

    /// Like `add_list`, for a list that NVIDIA's runtime reads: devices without a kind are GPUs.
    pub(super) fn add_nvidias_list(
        &self,
        list: &str,
        by: impl Fn() -> RequestSource,
        found: &mut RequestCollector,
    ) {
        for name in list.split(',').map(str::trim) {
            match name {
                "" | "none" | "void" => {}
                name if name.contains('=') => self.add_list(name, &by, found),
                device => self.add_list(&format!("{DEFAULT_KIND}={device}"), &by, found),
            }
        }
    }

    fn channels(&self, name: &QualifiedName) -> Vec<Channels> {
        if let Some(nodes) = (self.resolve)(name) {
            let major = self.major.map(|major| i64::from(major.get()));
            let channel = |node: &DeviceNode| {
                let of_host = || of_path(&clean(node.host_path.as_deref()?));
                of_device(&view(node), major).or_else(of_host)
            };
            return nodes.iter().filter_map(channel).collect();
        }
        let (kind, device) = (name.kind(), name.device().as_str());
        let channels = if *kind == Kind::compute_domain_claim() {
            // <uid>-channel-N; other devices of claims are no channels.
            let number = device.rsplit_once("-channel-");
            number.map(|(_, number)| of_text(number))
        } else if kind.class() == CHANNEL_CLASS {
            Some(of_text(device))
        } else if (kind.vendor(), kind.class()) == MANAGEMENT_KIND {
            Some(Channels::Every)
        } else {
            None
        };
        channels.into_iter().collect()
    }
}

fn view(node: &DeviceNode) -> DeviceView<'_> {
    DeviceView {
        path: &node.path,
        device_type: match node.device_type {
            Some(DeviceType::Block) => "b",
            Some(DeviceType::Fifo) => "p",
            // Without a type, the runtime uses the host's node: in the channels' directory, it is a
            // character device.
            _ => "c",
        },
        major: node.major.unwrap_or_default(),
        minor: node.minor.unwrap_or_default(),
    }
}
