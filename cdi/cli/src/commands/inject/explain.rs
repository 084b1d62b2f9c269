//! The origin of each edit of a plan.

use std::io::{self, Write};

use imex_cdi::{Change, Plan, Source};
use serde_json::{Value, json};

use crate::table;

pub(super) fn write(plan: &Plan, before: &Value, output: &mut impl Write) -> io::Result<()> {
    let rows = plan.steps().iter().map(|step| {
        let Source {
            file,
            device,
            field,
        } = &step.source;
        let device = device
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        // Added again, as Go's library does: rules have an order, and a later one
        // may have revoked it.
        let again = if has_rule(&step.change, before) {
            " (again)"
        } else {
            ""
        };
        [
            format!("{}{again}", step.change),
            device,
            field.clone(),
            file.to_string_lossy().into_owned(),
        ]
    });
    table::write(["EDIT", "DEVICE", "FIELD", "FILE"], rows, output)
}

/// Whether the config already has the rule that is added.
fn has_rule(change: &Change, config: &Value) -> bool {
    let Change::AllowDevice(rule) = change else {
        return false;
    };
    let rule = json!({
        "allow": true,
        "type": rule.device_type.as_str(),
        "major": rule.major,
        "minor": rule.minor,
        "access": String::from(rule.access),
    });
    let rules = config.pointer("/linux/resources/devices");
    let rules = rules.and_then(Value::as_array);
    rules.is_some_and(|rules| rules.contains(&rule))
}
