//! Taints whose effect an older API server does not know. It refuses the whole slice for one of them.

use k8s_openapi::api::resource::v1::Device;

use super::state::DroppedField;

/// The effects that every API server with taints knows. `None` came with a later version than 1.34.
const KNOWN: [&str; 2] = ["NoSchedule", "NoExecute"];

/// The devices without taints of other effects, and what they lack then. `None` if there are no such taints.
pub(super) fn remove(devices: &[Device]) -> Option<(Vec<Device>, DroppedField)> {
    let mut rest = devices.to_vec();
    let mut affected = Vec::new();
    for device in &mut rest {
        let Some(taints) = &mut device.taints else {
            continue;
        };
        let before = taints.len();
        taints.retain(|it| KNOWN.contains(&it.effect.as_str()));
        if taints.len() != before {
            affected.push(device.name.clone());
        }
        if taints.is_empty() {
            device.taints = None;
        }
    }
    affected.sort();
    let dropped = DroppedField {
        field: "taints.effect".to_owned(),
        devices: affected,
        gate: None,
    };
    (!dropped.devices.is_empty()).then_some((rest, dropped))
}
