//! The contents of a checkpoint file: the records of one driver, whole or damaged.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use compute_domain_node::DeviceGroup;
use dra_checkpoint::{ABORTED_FILE, CHECKPOINT_FILE, Checkpoint, DAMAGED_MARK, Damaged};
use host_doctor::{
    DecodedCheckpoint, DraDriver, MAX_CHECKPOINT_LEN, RawGpuGroup, checkpoint_records,
};
use serde_json::value::RawValue;

use super::damage::{ABORTED_FIX, has_name};
use crate::input::{self, ReadError, directory_of};
use crate::outcome::{Failure, Outcome};

/// A checkpoint file.
pub(super) struct Contents {
    /// The driver that wrote it; `None` if unknown.
    pub(super) driver: Option<DraDriver>,
    /// The drivers that the records name, if none of them has an own format here.
    pub(super) foreign_drivers: Vec<String>,
    pub(super) records: Records,
}

/// The records of a file.
pub(super) enum Records {
    /// Of `compute-domain.nvidia.com`, or of no driver.
    Channels(DecodedCheckpoint<DeviceGroup>),
    /// Of `gpu.nvidia.com`.
    Gpus(DecodedCheckpoint<RawGpuGroup>),
    /// Of another driver, or aborted: the devices are not decoded.
    Raw(DecodedCheckpoint<Box<RawValue>>),
}

// === impl Contents ===

impl Contents {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = read(path)?;
        let raw = Checkpoint::decode(&bytes);
        let named = named_drivers(&raw);
        let channels = || Checkpoint::decode(&bytes);
        let all = DraDriver::ALL.into_iter();
        let mut ours = all.filter(|it| named.contains(it.name()));
        let driver = match (ours.next(), ours.next()) {
            (Some(driver), None) => Some(driver),
            // Claims may have devices of both drivers.
            (Some(first), Some(second)) => {
                let by_format = || if channels().is_ok() { first } else { second };
                Some(driver_of_dir(path).unwrap_or_else(by_format))
            }
            (None, _) if named.is_empty() => driver_of_dir(path),
            (None, _) => None,
        };
        let mut foreign_drivers = Vec::new();
        let records = match (driver, raw) {
            (None, Ok(raw)) if !named.is_empty() => {
                foreign_drivers.extend(named);
                Records::Raw(Ok(raw))
            }
            (_, raw) if has_name(path, ABORTED_FILE) => Records::Raw(raw),
            (Some(DraDriver::Gpu), _) => Records::Gpus(Checkpoint::decode(&bytes)),
            _ => Records::Channels(channels()),
        };
        Ok(Self {
            driver,
            foreign_drivers,
            records,
        })
    }

    /// What is wrong with the file; `None` if it is intact.
    pub(super) fn damage(&self) -> Option<String> {
        match &self.records {
            Records::Channels(decoded) => decoded.as_ref().err().map(Damaged::description),
            Records::Gpus(decoded) => decoded.as_ref().err().map(Damaged::description),
            Records::Raw(decoded) => decoded.as_ref().err().map(Damaged::description),
        }
    }

    /// Adds the records of the file of aborted claims beside a checkpoint that has none.
    pub(super) fn add_aborted(&mut self, path: &Path) -> Result<(), Failure> {
        let aborted = path.with_file_name(ABORTED_FILE);
        let Records::Gpus(Ok(checkpoint)) = &mut self.records else {
            return Ok(());
        };
        if path.file_name() != Some(CHECKPOINT_FILE.as_ref()) || !aborted.exists() {
            return Ok(());
        }
        match Checkpoint::<Box<RawValue>>::decode(&read(&aborted)?) {
            Ok(aborted) => checkpoint.add_aborted(&aborted),
            Err(damaged) => {
                let reason = damaged.description();
                let message = format!("{} is damaged: {reason}", aborted.display());
                return Err(Failure::new(Outcome::Findings, message).hint(ABORTED_FIX));
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let limit = usize::try_from(MAX_CHECKPOINT_LEN).unwrap_or(usize::MAX);
    input::read(path, limit, |error| read_hint(path, error).map(Into::into))
}

/// The driver of the plugin directory that has the file.
fn driver_of_dir(path: &Path) -> Option<DraDriver> {
    DraDriver::from_name(directory_of(path).file_name()?.to_str()?)
}

/// The drivers of the claims' devices.
fn named_drivers(decoded: &DecodedCheckpoint<Box<RawValue>>) -> BTreeSet<String> {
    let records = checkpoint_records(decoded).into_values();
    let results = records.flat_map(|record| record.status.results());
    results.map(|it| it.driver().to_owned()).collect()
}

/// The hint for a checkpoint that cannot be read.
fn read_hint(path: &Path, error: &ReadError) -> Option<String> {
    let hint = match error {
        ReadError::Directory if path.file_name() == Some(CHECKPOINT_FILE.as_ref()) => {
            "the plugin's checkpoint is a file: find out what created this directory, and remove it if it is empty"
        }
        ReadError::Directory => {
            let file = path.join(CHECKPOINT_FILE);
            return Some(format!(
                "pass the file in this directory, for example {}",
                file.display()
            ));
        }
        ReadError::Io(source) => match source.kind() {
            ErrorKind::NotFound => {
                let set_aside = set_aside(path);
                if !set_aside.is_empty() {
                    let names = set_aside.join(", ");
                    return Some(format!(
                        "the plugin found the checkpoint damaged and renamed the file; see {names}"
                    ));
                }
                "check the path; set --kubelet-root if kubelet's root directory is not \
                 /var/lib/kubelet, and --root if the host's root is not /. The plugin creates \
                 the file when it prepares the first claim"
            }
            ErrorKind::PermissionDenied => {
                "the plugin's files belong to root: run cdi-gen as root, or pass a copy of the file"
            }
            _ => return None,
        },
        ReadError::TooLarge => {
            "the file is too large for a checkpoint (a thousand claims take about 2 MB): check the path"
        }
    };
    Some(hint.to_owned())
}

/// The damaged files that once had this name; none if the directory cannot be
/// listed.
fn set_aside(path: &Path) -> Vec<String> {
    let Some(name) = path.file_name() else {
        return vec![];
    };
    let beginning = [name.as_encoded_bytes(), DAMAGED_MARK.as_bytes()].concat();
    let entries = fs::read_dir(directory_of(path)).into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let names = names.filter(|it| it.as_encoded_bytes().starts_with(&beginning));
    let mut found: Vec<PathBuf> = names.map(|name| path.with_file_name(name)).collect();
    found.sort();
    let found = found.iter().map(|path| path.to_string_lossy().into_owned());
    found.collect()
}
