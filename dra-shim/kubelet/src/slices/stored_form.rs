//! The form in which the API server stores a device. The API server normalises quantities
//! and times, and silently drops fields if their feature gate is off. Such a device counts
//! as published: writing it again would change nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use serde_json::Value;

use super::state::DroppedField;

/// The devices that the API server did not store as they were sent, by device name.
#[derive(Debug, Default)]
pub(super) struct StoredForms(BTreeMap<String, StoredForm>);

#[derive(Debug)]
struct StoredForm {
    sent: Device,
    stored: Device,
    dropped: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    path: String,
    gate: Option<&'static str>,
}

// === impl StoredForms ===

impl StoredForms {
    /// Records the responses to writes that were made for `desired`.
    pub(super) fn record(&mut self, desired: &[Device], stored: &[ResourceSlice]) {
        let desired: BTreeMap<_, _> = desired.iter().map(|d| (d.name.as_str(), d)).collect();
        self.0.retain(|name, _| desired.contains_key(name.as_str()));
        let stored = stored.iter().flat_map(|slice| &slice.spec.devices);
        for stored in stored.flatten() {
            let Some(&sent) = desired.get(stored.name.as_str()) else {
                continue;
            };
            if with_stored_taint_times(sent, Some(stored)) == *stored {
                self.0.remove(&stored.name);
                continue;
            }
            let form = StoredForm {
                sent: sent.clone(),
                stored: stored.clone(),
                dropped: dropped(sent, stored),
            };
            self.0.insert(stored.name.clone(), form);
        }
    }

    /// Whether `stored` is the form in which the API server stores `wanted`.
    pub(super) fn matches(&self, wanted: &Device, stored: &Device) -> bool {
        with_stored_taint_times(wanted, Some(stored)) == *stored
            || self
                .0
                .get(&wanted.name)
                .is_some_and(|form| form.sent == *wanted && form.stored == *stored)
    }

    /// The dropped fields, each with its devices.
    pub(super) fn dropped_fields(&self) -> Vec<DroppedField> {
        let mut fields: BTreeMap<&Field, Vec<String>> = BTreeMap::new();
        for (device, form) in &self.0 {
            for field in &form.dropped {
                fields.entry(field).or_default().push(device.clone());
            }
        }
        let fields = fields.into_iter();
        let dropped = fields.map(|(field, devices)| DroppedField {
            field: field.path.clone(),
            devices,
            gate: field.gate,
        });
        dropped.collect()
    }
}

fn dropped(sent: &Device, stored: &Device) -> Vec<Field> {
    let (Ok(sent), Ok(stored)) = (serde_json::to_value(sent), serde_json::to_value(stored)) else {
        return Vec::new(); // cannot happen: these types serialize to JSON
    };
    let mut fields = Vec::new();
    collect_missing(&sent, Some(&stored), &mut Vec::new(), &mut fields);
    fields.sort();
    fields.dedup();
    fields
}

/// Collects the fields that `sent` has and `stored` lacks. A different value is not a
/// dropped field.
fn collect_missing<'a>(
    sent: &'a Value,
    stored: Option<&Value>,
    path: &mut Vec<&'a str>,
    fields: &mut Vec<Field>,
) {
    match (sent, stored) {
        // The API server may omit an empty value.
        (Value::Null | Value::Bool(false), None) => {}
        (Value::Array(list), None) if list.is_empty() => {}
        (Value::Object(map), None) if map.is_empty() => {}
        (Value::Object(sent), Some(stored)) => {
            for (key, value) in sent {
                path.push(key);
                collect_missing(value, stored.get(key), path, fields);
                path.pop();
            }
        }
        (Value::Array(sent), Some(Value::Array(stored))) if sent.len() <= stored.len() => {
            for (sent, stored) in sent.iter().zip(stored) {
                collect_missing(sent, Some(stored), path, fields);
            }
        }
        (Value::Array(_), _) | (_, None) => fields.push(Field {
            path: path.join("."),
            gate: gate(path),
        }),
        (_, Some(_)) => {}
    }
}

/// The feature gate of Kubernetes 1.34 to 1.36 for a field of a device.
fn gate(path: &[&str]) -> Option<&'static str> {
    match *path.first()? {
        "taints" => Some("DRADeviceTaints"),
        "bindingConditions" | "bindingFailureConditions" | "bindsToNode" => {
            Some("DRADeviceBindingConditions")
        }
        "allowMultipleAllocations" => Some("DRAConsumableCapacity"),
        "capacity" if path.contains(&"requestPolicy") => Some("DRAConsumableCapacity"),
        "consumesCounters" | "nodeName" | "nodeSelector" | "allNodes" => {
            Some("DRAPartitionableDevices")
        }
        "attributes" => Some("DRAListTypeAttributes"),
        "nodeAllocatableResources" => Some("DRANodeAllocatableResources"),
        _ => None,
    }
}

/// Returns the device with the stored `timeAdded` in its taints that are stored already and
/// have no `timeAdded`.
pub(super) fn with_stored_taint_times(device: &Device, stored: Option<&Device>) -> Device {
    let mut device = device.clone();
    let before = stored.and_then(|stored| stored.taints.as_deref());
    let taints = device.taints.iter_mut().flatten();
    for taint in taints.filter(|taint| taint.time_added.is_none()) {
        let same = before.into_iter().flatten().find(|other| {
            (&other.key, &other.value, &other.effect) == (&taint.key, &taint.value, &taint.effect)
        });
        taint.time_added = same.and_then(|same| same.time_added.clone());
    }
    device
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_device(value: Value) -> Device {
        serde_json::from_value(value).unwrap()
    }

    fn mk_stored(devices: Vec<Device>) -> ResourceSlice {
        let mut slice = ResourceSlice::default();
        slice.spec.devices = Some(devices);
        slice
    }

    // req: KUBELET-45
    #[test]
    fn dropped_fields_are_reported_with_their_devices_and_gate() {
        let full = |name: &str| {
            mk_device(json!({
                "name": name, "bindsToNode": true,
                "taints": [{"key": "d.example.com/hot", "effect": "NoSchedule"}],
                "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}},
            }))
        };
        let bare =
            |name: &str| mk_device(json!({"name": name, "capacity": {"memory": {"value": "1Gi"}}}));
        let desired = [full("a"), full("b")];
        let mut stored_forms = StoredForms::default();
        stored_forms.record(&desired, &[mk_stored(vec![bare("a"), bare("b")])]);
        assert!(stored_forms.matches(&desired[0], &bare("a")));
        let dropped = stored_forms.dropped_fields();
        let found: Vec<_> = dropped.iter().map(|d| (d.field.as_str(), d.gate)).collect();
        let expected = [
            ("bindsToNode", Some("DRADeviceBindingConditions")),
            (
                "capacity.memory.requestPolicy",
                Some("DRAConsumableCapacity"),
            ),
            ("taints", Some("DRADeviceTaints")),
        ];
        assert_eq!(found, expected);
        assert_eq!(dropped[2].devices, ["a", "b"]);
        assert_eq!(
            dropped[2].to_string(),
            "the API server dropped the field taints of 2 devices: the feature gate DRADeviceTaints is probably off"
        );
    }

    #[test]
    fn a_normalised_value_matches_and_is_not_reported_as_dropped() {
        let sent = mk_device(json!({"name": "a", "capacity": {"memory": {"value": "1024Mi"}}}));
        let stored = mk_device(json!({"name": "a", "capacity": {"memory": {"value": "1Gi"}}}));
        let mut stored_forms = StoredForms::default();
        assert!(!stored_forms.matches(&sent, &stored));
        stored_forms.record(
            std::slice::from_ref(&sent),
            &[mk_stored(vec![stored.clone()])],
        );
        assert!(stored_forms.matches(&sent, &stored));
        assert_eq!(stored_forms.dropped_fields(), []);
    }

    #[test]
    fn a_device_that_changed_since_does_not_match() {
        let sent = mk_device(json!({"name": "a", "bindsToNode": true}));
        let stored = mk_device(json!({"name": "a"}));
        let mut stored_forms = StoredForms::default();
        stored_forms.record(
            std::slice::from_ref(&sent),
            &[mk_stored(vec![stored.clone()])],
        );
        let other = mk_device(json!({"name": "a", "bindsToNode": true, "allNodes": true}));
        assert!(!stored_forms.matches(&other, &stored));
        let touched = mk_device(json!({"name": "a", "allNodes": true}));
        assert!(!stored_forms.matches(&sent, &touched));
        // The record of a device that is no longer desired is removed.
        stored_forms.record(&[], &[mk_stored(vec![])]);
        assert_eq!(stored_forms.dropped_fields(), []);
    }

    #[test]
    fn omitted_empty_values_are_not_dropped_fields() {
        let sent = mk_device(json!({"name": "a", "bindsToNode": false, "taints": []}));
        assert_eq!(dropped(&sent, &mk_device(json!({"name": "a"}))), []);
    }
}
