//! A device as an entry of a `ResourceSlice`.

use std::collections::BTreeMap;

use gpu_api::ConsumableShares;
use gpu_inventory::published::{Attribute, Device};
use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, Device as SliceDevice, DeviceAttribute,
    DeviceCapacity, DeviceTaint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::health::Effect;

const MEMORY: &str = "memory";

/// The unit in which claims consume memory.
const MIB: u64 = 1 << 20;

/// The entry, with these taints.
// req: GPU-40
pub(crate) fn slice_device(
    device: &Device,
    taints: Vec<DeviceTaint>,
    shares: ConsumableShares,
) -> SliceDevice {
    let attributes = device.attributes.iter();
    let attributes = attributes.map(|(name, value)| ((*name).to_owned(), attribute(value)));
    let capacity = device.capacity.iter().map(|(name, value)| {
        let capacity = DeviceCapacity {
            value: Quantity(binary(*value)),
            request_policy: None,
        };
        (name.clone(), capacity)
    });
    let mut capacity: BTreeMap<_, _> = capacity.collect();
    let is_shared = shares != ConsumableShares::Disabled;
    if is_shared {
        let memory = device.capacity.get(MEMORY).copied();
        capacity.extend(consumed(memory, shares));
    }
    SliceDevice {
        name: device.name.clone(),
        attributes: Some(attributes.collect()),
        capacity: (!capacity.is_empty()).then_some(capacity),
        taints: (!taints.is_empty()).then_some(taints),
        allow_multiple_allocations: is_shared.then_some(true),
        ..SliceDevice::default()
    }
}

/// The capacities of which each claim that shares the device consumes a part.
// req: GPU-52
fn consumed(
    memory: Option<u64>,
    shares: ConsumableShares,
) -> impl Iterator<Item = (String, DeviceCapacity)> {
    let memory = memory.map(|memory| {
        let all = memory - memory % MIB;
        let (default, min) = match shares {
            ConsumableShares::Memory => (all, MIB),
            _ => (0, 0),
        };
        (MEMORY.to_owned(), capacity(all, default, min, MIB))
    });
    let shares = match shares {
        ConsumableShares::Count(count) => {
            Some(("shares".to_owned(), capacity(count.get().into(), 1, 1, 1)))
        }
        _ => None,
    };
    memory.into_iter().chain(shares)
}

/// A capacity of which a claim consumes `default` without a request, else its request, rounded up to a multiple of
/// `step`.
fn capacity(all: u64, default: u64, min: u64, step: u64) -> DeviceCapacity {
    let quantity = |value| Quantity(binary(value));
    let range = CapacityRequestPolicyRange {
        min: quantity(min),
        max: Some(quantity(all)),
        step: Some(quantity(step)),
    };
    DeviceCapacity {
        value: quantity(all),
        request_policy: Some(CapacityRequestPolicy {
            default: Some(quantity(default)),
            valid_range: Some(range),
            valid_values: None,
        }),
    }
}

/// A taint. No effect ends the pods that have the device.
pub(crate) fn taint(key: &str, value: Option<String>, effect: Effect) -> DeviceTaint {
    DeviceTaint {
        key: key.to_owned(),
        value,
        effect: effect.as_str().to_owned(),
        time_added: None,
    }
}

fn attribute(value: &Attribute) -> DeviceAttribute {
    match value {
        Attribute::Text(text) => DeviceAttribute {
            string: Some(text.clone()),
            ..DeviceAttribute::default()
        },
        Attribute::Int(number) => DeviceAttribute {
            int: Some(*number),
            ..DeviceAttribute::default()
        },
        Attribute::Version(version) => DeviceAttribute {
            version: Some(version.clone()),
            ..DeviceAttribute::default()
        },
    }
}

/// The number in the form in which Kubernetes stores binary quantities: `81559Mi`.
fn binary(value: u64) -> String {
    let mut number = value;
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while number != 0 && number.is_multiple_of(1024) {
        let Some(next) = suffixes.next() else { break };
        number /= 1024;
        suffix = next;
    }
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_device(memory: Option<u64>) -> Device {
        let memory = memory.map(|memory| ("memory".to_owned(), memory));
        Device {
            name: "gpu-0".to_owned(),
            attributes: BTreeMap::new(),
            capacity: memory
                .into_iter()
                .chain([("engines".to_owned(), 3)])
                .collect(),
        }
    }

    /// The capacities that claims consume: value, default, min, max and step.
    fn consumed_capacities(memory: Option<u64>, shares: &str) -> Vec<(String, [String; 5])> {
        let device = slice_device(&mk_device(memory), Vec::new(), shares.parse().unwrap());
        assert_eq!(device.allow_multiple_allocations, Some(true));
        let capacity = device.capacity.unwrap();
        let engines = capacity.get("engines").unwrap();
        assert_eq!(
            (engines.value.0.as_str(), &engines.request_policy),
            ("3", &None)
        );
        let consumed = capacity.into_iter().filter_map(|(name, capacity)| {
            let policy = capacity.request_policy?;
            let range = policy.valid_range.unwrap();
            let values = [
                capacity.value,
                policy.default.unwrap(),
                range.min,
                range.max.unwrap(),
                range.step.unwrap(),
            ];
            Some((name, values.map(|it| it.0)))
        });
        consumed.collect()
    }

    // req: GPU-52
    #[test]
    fn a_shared_device_has_the_capacities_that_the_go_driver_publishes() {
        let entry = |name: &str, values: [&str; 5]| (name.to_owned(), values.map(str::to_owned));
        // Half a MiB is left over.
        let memory = Some((81559 << 20) + (1 << 19));
        let any = entry("memory", ["81559Mi", "0", "0", "81559Mi", "1Mi"]);
        let shares = entry("shares", ["10", "1", "1", "10", "1"]);
        for (memory, setting, expected) in [
            (memory, "unlimited", vec![any.clone()]),
            (
                memory,
                "memory",
                vec![entry(
                    "memory",
                    ["81559Mi", "81559Mi", "1Mi", "81559Mi", "1Mi"],
                )],
            ),
            (memory, "10", vec![any, shares.clone()]),
            // Memory is the host's.
            (None, "unlimited", vec![]),
            (None, "memory", vec![]),
            (None, "10", vec![shares]),
        ] {
            assert_eq!(consumed_capacities(memory, setting), expected, "{setting}");
        }
    }

    #[test]
    fn a_device_that_is_not_shared_has_its_exact_memory() {
        let memory = (81559 << 20) + (1 << 19);
        let device = mk_device(Some(memory));
        let device = slice_device(&device, Vec::new(), ConsumableShares::Disabled);
        assert_eq!(device.allow_multiple_allocations, None);
        let capacity = &device.capacity.unwrap()["memory"];
        assert_eq!(capacity.value.0, binary(memory));
        assert_eq!(capacity.request_policy, None);
    }

    // req: GPU-40
    #[test]
    fn a_capacity_has_the_form_of_binary_quantities() {
        let forms = [
            (0, "0"),
            (7, "7"),
            (1023, "1023"),
            (1024, "1Ki"),
            (81559 << 20, "81559Mi"),
            (80 << 30, "80Gi"),
            (1 << 60, "1Ei"),
        ];
        for (value, expected) in forms {
            assert_eq!(binary(value), expected);
        }
    }
}
