//! Converts an NRI container into the view of `imex-cdi`.

use imex_cdi::{ContainerView, DeviceView, MountView, RuleView};
use nri_plugin::api::{Container, LinuxDeviceCgroup, OptionalInt64, PodSandbox};

/// The container as a view. It includes the pod's annotations, since NRI plugins read those, too.
pub(super) fn view<'a>(pod: &'a PodSandbox, container: &'a Container) -> ContainerView<'a> {
    let linux = container.linux.as_ref();
    let devices = linux.map_or(&[][..], |linux| &linux.devices);
    let resources = linux.and_then(|linux| linux.resources.as_ref());
    let rules = resources.map_or(&[][..], |resources| &resources.devices);
    let annotations = pod.annotations.iter().chain(&container.annotations);
    ContainerView {
        name: &container.name,
        env: container.env.iter().map(String::as_str).collect(),
        annotations: annotations.map(|(key, value)| (&**key, &**value)).collect(),
        cdi_names: container.cdi_devices.iter().map(|it| &*it.name).collect(),
        devices: devices
            .iter()
            .map(|device| DeviceView {
                path: &device.path,
                device_type: &device.r#type,
                major: device.major,
                minor: device.minor,
            })
            .collect(),
        rules: rules.iter().filter(|rule| rule.allow).map(rule).collect(),
        mounts: container
            .mounts
            .iter()
            .map(|mount| MountView {
                source: &mount.source,
                destination: &mount.destination,
            })
            .collect(),
    }
}

fn rule(rule: &LinuxDeviceCgroup) -> RuleView<'_> {
    let number = |number: &Option<OptionalInt64>| number.as_ref().map(|number| number.value);
    RuleView {
        device_type: &rule.r#type,
        major: number(&rule.major),
        minor: number(&rule.minor),
        access: &rule.access,
    }
}
