//! Where each edit of a plan comes from.

use std::io::{self, Write};

use imex_cdi::{Plan, Source};

use crate::table;

pub(super) fn write(plan: &Plan, output: &mut impl Write) -> io::Result<()> {
    let rows = plan.steps().iter().map(|step| {
        let Source {
            file,
            device,
            field,
        } = &step.source;
        let device = device
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        [
            step.change.to_string(),
            device,
            field.clone(),
            file.to_string_lossy().into_owned(),
        ]
    });
    table::write(["EDIT", "DEVICE", "FIELD", "FILE"], rows, output)
}
