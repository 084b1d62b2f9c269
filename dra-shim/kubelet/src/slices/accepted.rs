//! What the API server made of the devices that were sent: it normalises
//! quantities and times, and silently drops fields whose feature gate is off.
//! Sending such a device again would change nothing, so it counts as published.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use serde_json::Value;

use super::plan::with_times;

/// A field of published devices that the API server did not store, because the
/// feature gate that guards it is off or the API server does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The field below `spec.devices[]`, such as `taints` or `bindsToNode`.
    pub field: String,
    /// The names of the devices that lost it, in order.
    pub devices: Vec<String>,
    /// The feature gate of API server and scheduler that probably guards it.
    pub gate: Option<&'static str>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.devices.len();
        write!(
            f,
            "the API server dropped {} of {count} devices",
            self.field
        )?;
        match self.gate {
            Some(gate) => write!(f, ": the feature gate {gate} is probably off"),
            None => f.write_str(": it is probably too old for that field"),
        }
    }
}

/// By device name: only devices that were not stored as they were sent.
#[derive(Debug, Default)]
pub(super) struct Accepted(BTreeMap<String, Answer>);

#[derive(Debug)]
struct Answer {
    sent: Device,
    stored: Device,
    dropped: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    path: String,
    gate: Option<&'static str>,
}

impl Accepted {
    /// Remembers the answers to writes that were made for `desired`.
    pub(super) fn learn(&mut self, desired: &[Device], stored: &[ResourceSlice]) {
        let desired: BTreeMap<_, _> = desired.iter().map(|d| (d.name.as_str(), d)).collect();
        self.0.retain(|name, _| desired.contains_key(name.as_str()));
        let stored = stored.iter().flat_map(|slice| &slice.spec.devices);
        for stored in stored.flatten() {
            let Some(&sent) = desired.get(stored.name.as_str()) else {
                continue;
            };
            if with_times(sent, Some(stored)) == *stored {
                self.0.remove(&stored.name);
                continue;
            }
            let answer = Answer {
                sent: sent.clone(),
                stored: stored.clone(),
                dropped: dropped(sent, stored),
            };
            self.0.insert(stored.name.clone(), answer);
        }
    }

    /// Whether `stored` is what becomes of `wanted`.
    pub(super) fn holds(&self, wanted: &Device, stored: &Device) -> bool {
        with_times(wanted, Some(stored)) == *stored
            || self
                .0
                .get(&wanted.name)
                .is_some_and(|answer| answer.sent == *wanted && answer.stored == *stored)
    }

    /// The fields that were dropped, each once, with its devices.
    pub(super) fn dropped(&self) -> Vec<Dropped> {
        let mut fields: BTreeMap<&Field, Vec<String>> = BTreeMap::new();
        for (device, answer) in &self.0 {
            for field in &answer.dropped {
                fields.entry(field).or_default().push(device.clone());
            }
        }
        let fields = fields.into_iter();
        let dropped = fields.map(|(field, devices)| Dropped {
            field: field.path.clone(),
            devices,
            gate: field.gate,
        });
        dropped.collect()
    }
}

fn dropped(sent: &Device, stored: &Device) -> Vec<Field> {
    let (Ok(sent), Ok(stored)) = (serde_json::to_value(sent), serde_json::to_value(stored)) else {
        return Vec::new(); // these types always become JSON
    };
    let mut fields = Vec::new();
    missing(&sent, Some(&stored), &mut Vec::new(), &mut fields);
    fields.sort();
    fields.dedup();
    fields
}

/// Collects what `sent` has and `stored` lacks. Another value is no loss.
fn missing<'a>(
    sent: &'a Value,
    stored: Option<&Value>,
    path: &mut Vec<&'a str>,
    fields: &mut Vec<Field>,
) {
    match (sent, stored) {
        // Not worth storing, or not lost.
        (Value::Null | Value::Bool(false), None) => {}
        (Value::Array(list), None) if list.is_empty() => {}
        (Value::Object(map), None) if map.is_empty() => {}
        (Value::Object(sent), Some(stored)) => {
            for (key, value) in sent {
                path.push(key);
                missing(value, stored.get(key), path, fields);
                path.pop();
            }
        }
        (Value::Array(sent), Some(Value::Array(stored))) if sent.len() <= stored.len() => {
            for (sent, stored) in sent.iter().zip(stored) {
                missing(sent, Some(stored), path, fields);
            }
        }
        (Value::Array(_), _) | (_, None) => fields.push(Field {
            path: path.join("."),
            gate: gate(path),
        }),
        (_, Some(_)) => {}
    }
}

/// The gates of Kubernetes 1.34 to 1.36 that guard fields of a device.
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

    #[test]
    fn dropped_fields_are_named_with_their_devices_and_their_gate() {
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
        let mut accepted = Accepted::default();
        accepted.learn(&desired, &[mk_stored(vec![bare("a"), bare("b")])]);
        assert!(accepted.holds(&desired[0], &bare("a")));
        let dropped = accepted.dropped();
        let said: Vec<_> = dropped.iter().map(|d| (d.field.as_str(), d.gate)).collect();
        let expected = [
            ("bindsToNode", Some("DRADeviceBindingConditions")),
            (
                "capacity.memory.requestPolicy",
                Some("DRAConsumableCapacity"),
            ),
            ("taints", Some("DRADeviceTaints")),
        ];
        assert_eq!(said, expected);
        assert_eq!(dropped[2].devices, ["a", "b"]);
        assert_eq!(
            dropped[2].to_string(),
            "the API server dropped taints of 2 devices: the feature gate DRADeviceTaints is probably off"
        );
    }

    #[test]
    fn a_normalised_value_is_accepted_and_not_called_dropped() {
        let sent = mk_device(json!({"name": "a", "capacity": {"memory": {"value": "1024Mi"}}}));
        let stored = mk_device(json!({"name": "a", "capacity": {"memory": {"value": "1Gi"}}}));
        let mut accepted = Accepted::default();
        assert!(!accepted.holds(&sent, &stored));
        accepted.learn(
            std::slice::from_ref(&sent),
            &[mk_stored(vec![stored.clone()])],
        );
        assert!(accepted.holds(&sent, &stored));
        assert_eq!(accepted.dropped(), []);
    }

    #[test]
    fn a_device_that_changed_since_is_not_accepted() {
        let sent = mk_device(json!({"name": "a", "bindsToNode": true}));
        let stored = mk_device(json!({"name": "a"}));
        let mut accepted = Accepted::default();
        accepted.learn(
            std::slice::from_ref(&sent),
            &[mk_stored(vec![stored.clone()])],
        );
        let other = mk_device(json!({"name": "a", "bindsToNode": true, "allNodes": true}));
        assert!(!accepted.holds(&other, &stored));
        let touched = mk_device(json!({"name": "a", "allNodes": true}));
        assert!(!accepted.holds(&sent, &touched));
        // Without the device there is nothing to be said about it.
        accepted.learn(&[], &[mk_stored(vec![])]);
        assert_eq!(accepted.dropped(), []);
    }

    #[test]
    fn what_is_worth_nothing_is_not_missed() {
        let sent = mk_device(json!({"name": "a", "bindsToNode": false, "taints": []}));
        assert_eq!(dropped(&sent, &mk_device(json!({"name": "a"}))), []);
    }
}
