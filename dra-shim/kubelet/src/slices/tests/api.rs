//! A model of an API server that stores slices, and of the scheduler that reads them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, ResourceSlice};

use super::super::cache::name;
use super::super::plan::{Pool, Step};

/// The allocatable devices of one pool: device name to content.
pub(in crate::slices) type Visible = BTreeMap<String, String>;

#[derive(Clone, Debug, Default)]
pub(in crate::slices) struct Server {
    pub(in crate::slices) slices: BTreeMap<String, ResourceSlice>,
    /// Number of requests that changed something.
    pub(in crate::slices) writes: usize,
    version: u64,
}

/// Error of a request with a failed precondition.
#[derive(Debug)]
pub(in crate::slices) struct Conflict;

impl Server {
    pub(in crate::slices) fn apply(&mut self, step: Step) -> Result<(), Conflict> {
        match step {
            Step::Create(slice) => {
                if self.slices.contains_key(name(&slice)) {
                    return Err(Conflict);
                }
                self.put(slice);
            }
            Step::Replace(slice) => {
                self.check_version(&slice)?;
                self.put(slice);
            }
            Step::Delete(slice) => {
                self.check_version(&slice)?;
                self.slices.remove(name(&slice));
            }
        }
        self.writes += 1;
        Ok(())
    }

    fn check_version(&self, slice: &ResourceSlice) -> Result<(), Conflict> {
        let stored = self.slices.get(name(slice)).ok_or(Conflict)?;
        let version = |slice: &ResourceSlice| slice.metadata.resource_version.clone();
        if version(stored) == version(slice) {
            Ok(())
        } else {
            Err(Conflict)
        }
    }

    /// Stores a slice unconditionally, like another client.
    pub(in crate::slices) fn put(&mut self, mut slice: ResourceSlice) {
        self.version += 1;
        slice.metadata.resource_version = Some(self.version.to_string());
        self.slices.insert(name(&slice).to_owned(), slice);
    }

    pub(in crate::slices) fn names(&self) -> Vec<String> {
        self.slices.keys().cloned().collect()
    }

    /// The allocatable devices; `None` for an incomplete or invalid pool.
    pub(in crate::slices) fn visible(&self, pool: &str) -> Option<Visible> {
        let of_pool = |slice: &&ResourceSlice| slice.spec.pool.name == pool;
        let slices: Vec<_> = self.slices.values().filter(of_pool).collect();
        let newest = slices
            .iter()
            .map(|slice| slice.spec.pool.generation)
            .max()?;
        let current = slices
            .into_iter()
            .filter(|slice| slice.spec.pool.generation == newest);
        let current: Vec<_> = current.collect();
        let count = current[0].spec.pool.resource_slice_count;
        if usize::try_from(count).ok() != Some(current.len()) {
            return None;
        }
        let mut visible = Visible::new();
        for device in current
            .iter()
            .flat_map(|slice| slice.spec.devices.iter().flatten())
        {
            let content = format!("{device:?}");
            if visible.insert(device.name.clone(), content).is_some() {
                return None;
            }
        }
        Some(visible)
    }
}

pub(in crate::slices) fn visible(devices: &[Device]) -> Visible {
    let devices = devices.iter();
    devices
        .map(|device| (device.name.clone(), format!("{device:?}")))
        .collect()
}

pub(in crate::slices) fn mk_pool() -> Pool {
    Pool {
        driver: "d.example.com".into(),
        node: "n1".into(),
        node_uid: "u-1".into(),
        taken: BTreeSet::new(),
    }
}

/// A device with its version as an attribute.
pub(in crate::slices) fn mk_device(number: u16, version: u8) -> Device {
    let attribute = DeviceAttribute {
        int: Some(version.into()),
        ..Default::default()
    };
    Device {
        name: format!("d{number}"),
        attributes: Some(BTreeMap::from([("version".to_owned(), attribute)])),
        ..Default::default()
    }
}
