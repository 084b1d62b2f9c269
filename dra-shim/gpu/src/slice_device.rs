//! A device as an entry of a `ResourceSlice`.

use gpu_inventory::published::{Attribute, Device};
use k8s_openapi::api::resource::v1::{
    Device as SliceDevice, DeviceAttribute, DeviceCapacity, DeviceTaint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::health::Effect;

/// The entry, with these taints.
// req: GPU-40
pub(crate) fn slice_device(device: &Device, taints: Vec<DeviceTaint>) -> SliceDevice {
    let attributes = device.attributes.iter();
    let attributes = attributes.map(|(name, value)| ((*name).to_owned(), attribute(value)));
    let capacity = device.capacity.iter().map(|(name, value)| {
        let capacity = DeviceCapacity {
            value: Quantity(binary(*value)),
            request_policy: None,
        };
        (name.clone(), capacity)
    });
    let capacity: std::collections::BTreeMap<_, _> = capacity.collect();
    SliceDevice {
        name: device.name.clone(),
        attributes: Some(attributes.collect()),
        capacity: (!capacity.is_empty()).then_some(capacity),
        taints: (!taints.is_empty()).then_some(taints),
        ..SliceDevice::default()
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
