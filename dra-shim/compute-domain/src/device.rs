//! The driver's device: its entry in the slice, and its health.

use std::collections::BTreeMap;

use compute_domain_api::driver_managed::{DRAINED_ATTRIBUTE, PLACE_ATTRIBUTE};
use compute_domain_api::names::{
    self, CLIQUE_ATTRIBUTE, DEGRADED_FABRIC_TAINT, DEVICE_ID_ATTRIBUTE, DEVICE_TYPE_ATTRIBUTE,
    DEVICE_TYPE_CHANNEL, NO_CLIQUE_TAINT, SHARING_ENDS_TAINT, SLOTS_CAPACITY,
};
use compute_domain_api::{Isolation, Placement, Settings};
use compute_domain_node::Hardware;
use compute_domain_node::policy::{Fault, PrepareAnswer, Slice};
use dra_kubelet::{DesiredPool, DeviceHealth, Health};
use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, DeviceCapacity, DeviceTaint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use nvml_clique::Fabric;
use plugin_parts::UnsupportedFields;

use crate::device_form::DeviceForm;
use crate::imex_daemon::PublishedDaemon;

/// The only published device, whichever channels its claims open: a second one could be
/// allocated together with it.
const PUBLISHED_CHANNEL: u32 = 0;

/// How the device of a node with a fault is published, as the administrator has configured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placements {
    without_clique: Placement,
    degraded_fabric: Placement,
    /// How many channels the NVIDIA driver must have: one for each channel number of a domain.
    channel_count: u32,
}

/// How the node's device is published.
#[derive(Debug, Clone, PartialEq)]
enum Publishing {
    /// With these taints, which keep new claims away. Empty: without taints.
    With(Vec<DeviceTaint>),
    /// Not published, because the API server drops its taints.
    Withheld,
}

/// The state of the hardware in one line. The text changes only with the state.
pub(crate) fn describe(hardware: &Hardware) -> String {
    let fabric = match &hardware.fabric {
        // Its Display text counts seconds.
        Fabric::NoAnswer { .. } => "NVML does not respond".to_owned(),
        fabric => fabric.to_string(),
    };
    match hardware.check_major() {
        Ok(()) => fabric,
        Err(reason) => format!("{fabric}; {reason}"),
    }
}

// === impl Placements ===

impl Placements {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            without_clique: settings.without_clique,
            degraded_fabric: settings.degraded_fabric,
            channel_count: match settings.isolation {
                // Cliques use the channels of this range.
                Isolation::None => settings.group_channels().end() + 1,
                Isolation::Channel => settings.channel_count,
            },
        }
    }

    /// The desired content of the node's slice.
    // req: NODE-31
    pub(crate) fn desired_slice(
        self,
        hardware: &Hardware,
        form: DeviceForm,
        unsupported_fields: UnsupportedFields,
    ) -> DesiredPool {
        match (hardware.policy().slice, form) {
            (Slice::Unchanged, _) | (_, DeviceForm::Undecided) => DesiredPool::Undecided,
            (Slice::Empty, _) => DesiredPool::Withdrawn,
            (Slice::Channel, form) => {
                let Publishing::With(taints) = self.publishing(hardware, form, unsupported_fields)
                else {
                    return DesiredPool::Withdrawn;
                };
                let mut device = channel(PUBLISHED_CHANNEL, hardware);
                device.taints = (!taints.is_empty()).then_some(taints);
                if let DeviceForm::Shared { slots } | DeviceForm::Draining { slots } = form {
                    share(&mut device, slots);
                }
                DesiredPool::Devices(vec![device])
            }
        }
    }

    /// The text of [`describe`], and what keeps new claims away.
    pub(crate) fn describe(
        self,
        hardware: &Hardware,
        form: DeviceForm,
        unsupported_fields: UnsupportedFields,
    ) -> String {
        let mut parts = vec![describe(hardware)];
        if unsupported_fields.sharing {
            parts.push("only one claim at a time can have the device, because the API server drops allowMultipleAllocations (feature gate DRAConsumableCapacity)".to_owned());
        }
        if let Some(count) = self.missing_channels(hardware) {
            let wanted = self.channel_count;
            parts.push(format!(
                "the NVIDIA driver has {count} IMEX channels, but imex.channelCount is {wanted}: load the driver with NVreg_ImexChannelCount={wanted}, or set imex.channelCount to the number of channels that every node has"
            ));
        }
        match self.publishing(hardware, form, unsupported_fields) {
            Publishing::With(taints) => {
                let keys = taints.into_iter().map(|taint| taint.key);
                parts.extend(keys.map(|key| format!("the device has the taint {key}")));
            }
            Publishing::Withheld => parts.push(
                "the device is withdrawn, because the API server drops its taint (feature gate DRADeviceTaints)".to_owned(),
            ),
        }
        parts.join("; ")
    }

    /// How many channels the NVIDIA driver has, if that is fewer than domains may use.
    pub(crate) fn missing_channels(self, hardware: &Hardware) -> Option<u32> {
        let has_fewer = |count: &u32| *count < self.channel_count;
        hardware.channel_count.filter(has_fewer)
    }

    // req: NODE-33
    fn publishing(
        self,
        hardware: &Hardware,
        form: DeviceForm,
        unsupported_fields: UnsupportedFields,
    ) -> Publishing {
        let of_fault = hardware.policy().fault.and_then(|fault| {
            let (placement, key) = match fault {
                Fault::NoClique => (self.without_clique, NO_CLIQUE_TAINT),
                Fault::DegradedFabric => (self.degraded_fabric, DEGRADED_FABRIC_TAINT),
            };
            let value = hardware.fabric.code();
            (placement == Placement::Taint).then(|| no_schedule(key, Some(value)))
        });
        let is_draining = matches!(form, DeviceForm::Draining { .. });
        let of_draining = is_draining.then(|| no_schedule(SHARING_ENDS_TAINT, None));
        let taints: Vec<_> = of_fault.into_iter().chain(of_draining).collect();
        if unsupported_fields.taints && !taints.is_empty() {
            return Publishing::Withheld;
        }
        Publishing::With(taints)
    }
}

/// A taint that keeps new claims away; existing ones stay.
fn no_schedule(key: &str, value: Option<&str>) -> DeviceTaint {
    DeviceTaint {
        key: key.to_owned(),
        value: value.map(str::to_owned),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    }
}

/// A channel with the Go driver's attributes and the clique.
// req: NODE-30
fn channel(id: u32, hardware: &Hardware) -> Device {
    let number = DeviceAttribute {
        int: Some(i64::from(id)),
        ..DeviceAttribute::default()
    };
    let clique = hardware.fabric.clique().map(|clique| clique.to_string());
    let own = clique.map(|clique| (CLIQUE_ATTRIBUTE.to_owned(), text(clique)));
    let as_go = [
        (
            DEVICE_TYPE_ATTRIBUTE.to_owned(),
            text(DEVICE_TYPE_CHANNEL.to_owned()),
        ),
        (DEVICE_ID_ATTRIBUTE.to_owned(), number),
    ];
    Device {
        name: names::channel_device_name(id),
        attributes: Some(as_go.into_iter().chain(own).collect()),
        ..Device::default()
    }
}

/// Adds the attributes about the node's IMEX daemon that the controller reads. The daemon's place is published only
/// if it belongs to the clique of the node's GPUs.
// req: MODE-19, DM-7
pub(crate) fn add_daemon(pool: &mut DesiredPool, daemon: &PublishedDaemon, hardware: &Hardware) {
    let DesiredPool::Devices(devices) = pool else {
        return;
    };
    let clique = hardware.fabric.clique().map(|clique| clique.to_string());
    let place = daemon.place.as_ref();
    let place = place.filter(|(of, _)| Some(of) == clique.as_ref());
    let place = place.map(|(_, place)| (PLACE_ATTRIBUTE, place.to_string()));
    let drained = daemon.drained.clone().map(|pod| (DRAINED_ATTRIBUTE, pod));
    for device in devices {
        let attributes = device.attributes.get_or_insert_default();
        let own = place.iter().chain(&drained);
        attributes.extend(own.map(|(name, value)| ((*name).to_owned(), text(value.clone()))));
    }
}

fn text(text: String) -> DeviceAttribute {
    DeviceAttribute {
        string: Some(text),
        ..DeviceAttribute::default()
    }
}

/// Lets many claims share the device, each with one of its slots. There is no request policy: a claim
/// that requests no slot, such as one from the Go driver's template, takes all of them and has the
/// device exclusively. The device always has a capacity, because shares that are allocated without
/// one would not count against a later one.
// req: CHANNEL-4
fn share(device: &mut Device, slots: u32) {
    device.allow_multiple_allocations = Some(true);
    let slots = DeviceCapacity {
        value: Quantity(slots.to_string()),
        request_policy: None,
    };
    device.capacity = Some(BTreeMap::from([(SLOTS_CAPACITY.to_owned(), slots)]));
}

/// The health of the published channel.
pub(crate) fn channel_health(pool: &str, hardware: &Hardware) -> DeviceHealth {
    let policy = hardware.policy();
    let (health, message) = match hardware.check_major() {
        Err(reason) => (Health::Unhealthy, reason),
        Ok(()) if policy.prepare == PrepareAnswer::Prepared => (Health::Healthy, String::new()),
        Ok(()) if policy.slice == Slice::Unchanged => (Health::Unknown, String::new()),
        Ok(()) => (Health::Unhealthy, describe(hardware)),
    };
    DeviceHealth {
        pool: pool.to_owned(),
        device: names::channel_device_name(PUBLISHED_CHANNEL),
        health,
        message,
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
