//! The publisher's decisions, without I/O: from what should be and what is to the
//! requests that lead there.
//!
//! Rules of the API and its consumers that shape them: the scheduler uses the
//! slices of a pool's highest generation only, and only if their number is the
//! pool's `resourceSliceCount`; slices are tried in order of their names, so names
//! begin with the slice's index in hexadecimal; driver, pool name and node name of
//! a slice are immutable.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourcePool, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::SliceError;

/// More are allowed only while no device has taints: a slice of 65 or more could
/// never get one.
pub(super) const MAX_DEVICES: usize = 64;
/// `metadata.name`
pub(super) const MAX_NAME: usize = 253;

/// Whose pool it is.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) driver: String,
    pub(super) node: String,
    pub(super) node_uid: String,
}

/// The last devices sent and what the server made of them: it normalises
/// quantities and drops fields whose feature is off, and sending them again would
/// not change that.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) sent: Vec<Device>,
    pub(super) stored: Option<Vec<Device>>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create(ResourceSlice),
    /// Carries the resourceVersion that it was made from.
    Replace(ResourceSlice),
    /// Of exactly this object (name, UID, resourceVersion).
    Delete(ResourceSlice),
}

/// The requests that make the pool hold `devices`, in order; none if it does.
///
/// A slice of ours with index 0 is updated in place, whoever made it and whatever
/// its suffix. The generation grows only if another slice of the pool must be
/// outdated by it; then the update comes before the deletions, so the pool is
/// never without devices.
pub(super) fn publish(
    pool: &Pool,
    devices: &[Device],
    accepted: Option<&Accepted>,
    observed: &BTreeMap<String, ResourceSlice>,
) -> Result<Vec<Step>, SliceError> {
    if devices.len() > MAX_DEVICES {
        return Err(SliceError::TooManyDevices {
            count: devices.len(),
        });
    }
    let kept = observed
        .values()
        .filter(|slice| pool.could_hold(slice))
        .max_by(|a, b| {
            // Two publishers of a rolling update must choose the same one.
            let by_generation = a.spec.pool.generation.cmp(&b.spec.pool.generation);
            by_generation.then_with(|| b.metadata.name.cmp(&a.metadata.name))
        });
    let others: Vec<_> = observed
        .values()
        .filter(|slice| kept.is_none_or(|kept| kept.metadata.name != slice.metadata.name))
        .collect();
    let rivals = others
        .iter()
        .filter(|slice| slice.spec.pool.name == pool.node);
    let newest = rivals.map(|slice| slice.spec.pool.generation).max();

    let first = match kept {
        None => Some(pool.create(devices, newest.map_or(1, |newest| newest + 1))?),
        Some(kept) => {
            let current = kept.spec.pool.generation;
            let outdates = newest.is_some_and(|newest| newest >= current)
                || kept.spec.pool.resource_slice_count != 1;
            let generation = if outdates {
                newest.unwrap_or(current).max(current) + 1
            } else {
                current
            };
            pool.update(kept, devices, generation, accepted)
        }
    };
    let deletions = others.into_iter().cloned().map(Step::Delete);
    Ok(first.into_iter().chain(deletions).collect())
}

/// The requests that leave no slice of this driver and node.
pub(super) fn withdraw(observed: &BTreeMap<String, ResourceSlice>) -> Vec<Step> {
    observed.values().cloned().map(Step::Delete).collect()
}

impl Pool {
    fn could_hold(&self, slice: &ResourceSlice) -> bool {
        slice.spec.pool.name == self.node
            && slice.spec.node_name.as_deref() == Some(&self.node)
            && slice.spec.driver == self.driver
            && index(slice.metadata.name.as_deref().unwrap_or_default()) == Some(0)
            && slice.metadata.deletion_timestamp.is_none()
    }

    fn create(&self, devices: &[Device], generation: i64) -> Result<Step, SliceError> {
        let name = format!("{:05x}-{}-{}", 0, self.driver, self.node);
        if name.len() > MAX_NAME {
            return Err(SliceError::NameTooLong { name });
        }
        Ok(Step::Create(ResourceSlice {
            metadata: ObjectMeta {
                name: Some(name),
                owner_references: Some(vec![self.owner()]),
                ..Default::default()
            },
            spec: self.spec(devices.to_vec(), generation),
        }))
    }

    fn update(
        &self,
        kept: &ResourceSlice,
        devices: &[Device],
        generation: i64,
        accepted: Option<&Accepted>,
    ) -> Option<Step> {
        let stored = kept.spec.devices.as_deref().unwrap_or_default();
        let known = accepted.is_some_and(|accepted| {
            accepted.sent == devices && accepted.stored.as_deref().unwrap_or_default() == stored
        });
        let devices = if known {
            stored.to_vec()
        } else {
            with_times(devices, stored)
        };
        let mut slice = kept.clone();
        slice.metadata.owner_references = Some(vec![self.owner()]);
        slice.spec = self.spec(devices, generation);
        let same = slice.metadata == kept.metadata
            && slice.spec.pool == kept.spec.pool
            && slice.spec.devices.as_deref().unwrap_or_default() == stored;
        (!same).then_some(Step::Replace(slice))
    }

    fn spec(&self, devices: Vec<Device>, generation: i64) -> ResourceSliceSpec {
        ResourceSliceSpec {
            driver: self.driver.clone(),
            node_name: Some(self.node.clone()),
            pool: ResourcePool {
                name: self.node.clone(),
                generation,
                resource_slice_count: 1,
            },
            devices: Some(devices),
            ..Default::default()
        }
    }

    /// The node's deletion takes the slices along.
    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: self.node.clone(),
            uid: self.node_uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

/// The slice's index in its pool: at least 5 hexadecimal digits before the first dash.
fn index(name: &str) -> Option<u64> {
    let (digits, _) = name.split_once('-')?;
    let valid = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The devices with the server's `timeAdded` on taints that are there already.
fn with_times(devices: &[Device], stored: &[Device]) -> Vec<Device> {
    let mut devices = devices.to_vec();
    for device in &mut devices {
        let before = stored.iter().find(|before| before.name == device.name);
        let Some(before) = before.and_then(|before| before.taints.as_deref()) else {
            continue;
        };
        for taint in device
            .taints
            .iter_mut()
            .flatten()
            .filter(|taint| taint.time_added.is_none())
        {
            let same = before.iter().find(|other| {
                (&other.key, &other.value, &other.effect)
                    == (&taint.key, &taint.value, &taint.effect)
            });
            taint.time_added = same.and_then(|same| same.time_added.clone());
        }
    }
    devices
}

#[cfg(test)]
mod tests;
