//! Probable mistakes in specs that every reader accepts: a container then starts without the
//! device, with another one, or not at all.

mod annotations;
mod channel;
mod edits;
mod found;
mod numbers;
mod warning;

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::Spec;
use crate::spec::Field;
use channel::only_channel;
use found::Warnings;

pub use warning::{Lint, Warning};

impl Spec {
    /// Probable mistakes in the spec, in the order of its fields, the spec's own before those of
    /// its devices. Checks that need a host are left out: whether a path exists, or a major is that
    /// of the IMEX channels.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        self.each_warning(|field, lint| {
            let field = field.to_string();
            warnings.push(Warning { field, lint });
        });
        warnings
    }

    /// Passes the warnings to `found` one by one; fields are paths in JSON, as in [`Warning`]. None
    /// is kept, because every few bytes of a spec may have one.
    pub fn each_warning(&self, mut found: impl FnMut(&dyn Display, Lint)) {
        let mut found = |field: Field, lint| found(&field, lint);
        let mut warnings = Warnings::new(&mut found);
        if self.version() > self.needed_version() {
            warnings.add(Field::in_spec("cdiVersion"), Lint::VersionTooHigh);
        }
        warnings.annotations(Field::in_spec("annotations"), self.annotations());
        warnings.edits(None, self.container_edits());
        let mut channels = BTreeSet::new();
        for (index, device) in self.devices().iter().enumerate() {
            let field = Field::in_device(index, "annotations");
            warnings.annotations(field, &device.annotations);
            warnings.edits(Some(index), &device.container_edits);
            if let Some((node, channel)) = only_channel(device)
                && !channels.insert(channel)
            {
                let field = Field::in_spec("deviceNodes").entry(node).leaf("path");
                warnings.add(field.in_edits_of(Some(index)), Lint::SharedChannel);
            }
        }
    }
}
