//! An installed spec gets devices in addition to those that it has.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use host_doctor::{and_more, is_channel_path};
use imex_cdi::{Device, DeviceName, Spec, SpecError};

use super::error::GenerateError;
use crate::document::{self, DocumentError};
use crate::input::InputError;
use crate::stderr::note;

/// `spec` with the devices of the file at `path` that it does not define itself, and
/// with what that file has for all of them.
pub(super) fn with_installed(path: &Path, spec: &Spec) -> Result<Spec, GenerateError> {
    let refused = |source| GenerateError::Installed {
        path: path.to_owned(),
        source,
    };
    let bytes = match document::read_spec(path) {
        Err(DocumentError::Input(InputError::Io { source, .. }))
            if source.kind() == io::ErrorKind::NotFound =>
        {
            return Ok(spec.clone());
        }
        bytes => bytes.map_err(refused)?,
    };
    let old = document::spec(path, &bytes).map_err(refused)?;
    if old.kind() != spec.kind() {
        return Err(GenerateError::OtherKind {
            path: path.to_owned(),
            kind: old.kind().clone(),
        });
    }
    note_kept(path, &old, spec);
    merged(&old, spec).map_err(GenerateError::Spec)
}

/// The old devices keep their places.
fn merged(old: &Spec, new: &Spec) -> Result<Spec, SpecError> {
    let mut added = by_name(new);
    let kept = old.devices().iter();
    let mut devices: Vec<Device> = kept
        .map(|device| added.remove(&device.name).unwrap_or(device).clone())
        .collect();
    let is_added = |device: &&Device| added.contains_key(&device.name);
    devices.extend(new.devices().iter().filter(is_added).cloned());
    let merged = Spec::new(new.kind().clone(), devices)?
        .with_container_edits(old.container_edits().clone())?
        .with_annotations(old.annotations().clone())?;
    if new.version() > merged.version() {
        return merged.with_version(new.version());
    }
    Ok(merged)
}

fn by_name(spec: &Spec) -> BTreeMap<&DeviceName, &Device> {
    let devices = spec.devices().iter();
    devices.map(|device| (&device.name, device)).collect()
}

/// Names the devices that stay, since the command names only the others; and whether
/// they are of a driver that has since got another major.
fn note_kept(path: &Path, old: &Spec, new: &Spec) {
    let named = by_name(new);
    let kept = old.devices().iter();
    let kept: Vec<&Device> = kept
        .filter(|device| !named.contains_key(&device.name))
        .collect();
    let Some((first, others)) = kept.split_first() else {
        return;
    };
    let major = new.devices().iter().find_map(channel_major);
    let differs = |device: &&&Device| {
        let found = channel_major(device);
        found.is_some() && major.is_some() && found != major
    };
    let fix = match kept.iter().find(differs) {
        Some(stale) => format!(
            "{} has another major than the channels that are written now: name it, too, or drop it \
             with --replace",
            stale.name
        ),
        None => "--replace drops what is not named".to_owned(),
    };
    note(&format!(
        "{} still defines {}={}{}, as before; {fix}",
        path.display(),
        old.kind(),
        first.name,
        and_more(others.len())
    ));
}

/// The major of the first channel that the device opens.
fn channel_major(device: &Device) -> Option<i64> {
    let nodes = device.container_edits.device_nodes.iter();
    let mut channels = nodes.filter(|node| is_channel_path(&node.path));
    channels.find_map(|node| node.major)
}
