//! The checks of Go's CDI library on a spec.

use std::collections::{BTreeMap, BTreeSet};

use super::{Field, Spec, SpecError, SpecFault, write};
use crate::go_serde::KEY_LIMIT;
use crate::{ContainerEdits, DeviceName, SpecVersion};

/// The number of faults after which the check of a spec ends: every few bytes of a
/// text may have one.
const FAULT_LIMIT: usize = 1000;

impl Spec {
    /// Every reason for which Go's CDI library refuses the spec (`validate` in its
    /// `pkg/cdi/spec.go`, which stops at the first), the spec's own before those of
    /// its devices; about [`FAULT_LIMIT`] at most.
    pub(crate) fn faults(&self) -> Vec<SpecError> {
        let mut faults = Vec::new();
        faults.extend(self.version_fault());
        self.faults_of_edits(&mut faults, None, self.container_edits());
        let mut seen = BTreeSet::new();
        for (index, device) in self.devices().iter().enumerate() {
            if faults.len() >= FAULT_LIMIT {
                break;
            }
            let name = &device.name;
            let fault = |fault| SpecError::new(fault).about(self.kind(), Some(name));
            if device.container_edits.is_empty() {
                let field = Field::in_device(index, "containerEdits");
                faults.push(fault(SpecFault::NoEdits).in_field(&field));
            }
            self.faults_of_edits(&mut faults, Some((index, name)), &device.container_edits);
            if !seen.insert(name) {
                let field = Field::in_device(index, "name");
                faults.push(fault(SpecFault::DuplicateDevice).in_field(&field));
            }
        }
        if self.devices().is_empty() {
            let fault = SpecError::new(SpecFault::NoDevices).about(self.kind(), None);
            faults.push(fault.in_field(&Field::in_spec("devices")));
        }
        faults
    }

    /// An annotation with a key that is too long to be read back from a file.
    pub(super) fn key_fault(&self) -> Option<SpecError> {
        let is_long = |annotations: &BTreeMap<String, String>| {
            // Escapes make a byte six bytes at most.
            let long = annotations.keys().filter(|key| key.len() > KEY_LIMIT / 6);
            long.into_iter().any(|key| written_length(key) > KEY_LIMIT)
        };
        let fault = SpecError::new(SpecFault::KeyTooLong);
        if is_long(self.annotations()) {
            let field = Field::in_spec("annotations");
            return Some(fault.about(self.kind(), None).in_field(&field));
        }
        let mut devices = self.devices().iter().enumerate();
        let (index, device) = devices.find(|(_, device)| is_long(&device.annotations))?;
        let field = Field::in_device(index, "annotations");
        Some(
            fault
                .about(self.kind(), Some(&device.name))
                .in_field(&field),
        )
    }

    fn version_fault(&self) -> Option<SpecError> {
        let declared = self.version();
        let error = |fault| {
            let error = SpecError::new(fault).about(self.kind(), None);
            error.in_field(&Field::in_spec("cdiVersion"))
        };
        let needs = self.each_need().filter(|(needed, _)| *needed > declared);
        // The first field that needs the highest version.
        let highest = needs.reduce(|a, b| if b.0 > a.0 { b } else { a });
        match highest {
            Some((needed, by)) => Some(error(SpecFault::VersionTooLow {
                declared,
                needed,
                by: by.to_string(),
            })),
            None if declared < SpecVersion::FIRST => {
                Some(error(SpecFault::VersionTooOld { declared }))
            }
            None => None,
        }
    }

    fn faults_of_edits(
        &self,
        faults: &mut Vec<SpecError>,
        device: Option<(usize, &DeviceName)>,
        edits: &ContainerEdits,
    ) {
        edits.each_fault(&mut |field, fault| {
            if faults.len() >= FAULT_LIMIT {
                return;
            }
            let field = field.in_edits_of(device.map(|(index, _)| index));
            let error = SpecError::new(SpecFault::Edit(fault));
            let error = error.about(self.kind(), device.map(|(_, name)| name));
            faults.push(error.in_field(&field));
        });
    }
}

/// How many bytes `key` has in the file, without its quotes.
fn written_length(key: &str) -> usize {
    write::json(&key).map_or(usize::MAX, |json| json.len().saturating_sub(2))
}
