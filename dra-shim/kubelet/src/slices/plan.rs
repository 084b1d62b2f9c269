//! The publisher's decisions, without I/O: computes the requests that turn the existing
//! slices into the desired ones.
//!
//! They follow from rules of the API and the scheduler. The scheduler uses only the slices
//! of a pool's highest generation, and only if their number is the pool's
//! `resourceSliceCount`. It tries slices in order of their names, so names begin with the
//! slice's index in hexadecimal. Driver, pool name and node name of a slice are immutable.
//!
//! # What a scheduler sees between the requests
//!
//! The scheduler sees the old pool, the new pool, or no pool. It never sees a mixture, or a
//! device twice. The choice of the generation ensures this:
//!
//! * If one slice of a complete pool differs, the generation is kept: one write changes the
//!   pool from old to new.
//! * If all slices of the newest generation are up to date and some are missing, the
//!   generation is kept: the pool is invisible until the last missing slice is written.
//! * Otherwise the generation grows by one and every slice is written: the first write
//!   hides the pool and the last one shows it.
//!
//! This holds for the published pool. Slices of other pools are deleted first, one by one.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{Device, ResourcePool, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::cache::name;
use super::error::SliceError;
use super::layout::{self, StoredNames};
use super::stored_form::{StoredForms, with_stored_taint_times};
use crate::names::MAX_OBJECT_NAME;

/// The identity of a pool. Its name is the node's.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) driver: String,
    pub(super) node: String,
    pub(super) node_uid: String,
    /// Names in use by slices of other drivers or nodes.
    pub(super) taken: BTreeSet<String>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create(ResourceSlice),
    /// Has the resourceVersion of the existing slice.
    Replace(ResourceSlice),
    /// Deletes exactly this object (name, UID, resourceVersion).
    Delete(ResourceSlice),
}

/// Requests that may be sent concurrently. A stage begins when all requests of the
/// previous one have succeeded.
pub(super) type Stage = Vec<Step>;

/// One desired slice, and the stored slice that it replaces.
struct Slot<'a> {
    index: usize,
    devices: Vec<&'a Device>,
    existing: Option<&'a ResourceSlice>,
    /// Whether a scheduler finds the right devices in `existing`.
    up_to_date: bool,
}

/// Returns the stages after which the pool contains `devices`; empty if it already does.
///
/// First the slices of other pools are deleted, because they may have the same devices. Then
/// the pool is written; an existing slice with the same index is replaced, regardless of its
/// creator and suffix. Surplus slices are deleted last.
// req: KUBELET-39
pub(super) fn publish(
    pool: &Pool,
    devices: &[Device],
    stored_forms: &StoredForms,
    observed: &BTreeMap<String, ResourceSlice>,
) -> Result<Vec<Stage>, SliceError> {
    layout::validate(devices)?;
    let (own, others): (Vec<_>, Vec<_>) = observed
        .values()
        .partition(|slice| slice.spec.pool.name == pool.node);
    let slots = pool.slots(devices, stored_forms, &own);
    let generation = next_generation(&own, &slots);

    let count = slots.len();
    let writes = slots
        .iter()
        .filter_map(|slot| pool.write(slot, count, generation).transpose());
    let writes = writes.collect::<Result<Stage, _>>()?;
    let unneeded = own.into_iter().filter(|slice| !is_kept(slice, &slots));
    let stages = [delete(others), writes, delete(unneeded)];
    Ok(stages
        .into_iter()
        .filter(|stage| !stage.is_empty())
        .collect())
}

/// Returns the requests that delete all slices of this driver and node.
pub(super) fn withdraw(observed: &BTreeMap<String, ResourceSlice>) -> Stage {
    delete(observed.values())
}

/// Deletes slices, except those that are already being deleted.
fn delete<'a>(slices: impl IntoIterator<Item = &'a ResourceSlice>) -> Stage {
    let slices = slices.into_iter();
    let slices = slices.filter(|slice| slice.metadata.deletion_timestamp.is_none());
    slices.cloned().map(Step::Delete).collect()
}

fn is_kept(slice: &ResourceSlice, slots: &[Slot<'_>]) -> bool {
    let existing = slots.iter().filter_map(|slot| slot.existing);
    existing
        .into_iter()
        .any(|existing| name(existing) == name(slice))
}

/// The generation to write; the module's documentation explains why this is safe.
// req: KUBELET-40
fn next_generation(own: &[&ResourceSlice], slots: &[Slot<'_>]) -> i64 {
    let generation = |slice: &ResourceSlice| slice.spec.pool.generation;
    let Some(newest) = own.iter().map(|slice| generation(slice)).max() else {
        return 1;
    };
    let current = || own.iter().filter(|slice| generation(slice) == newest);
    let has_stray = current().any(|slice| !is_kept(slice, slots));
    let is_complete = current().count() == slots.len();
    let outdated = slots
        .iter()
        .filter(|slot| {
            !slot.up_to_date
                && slot
                    .existing
                    .is_some_and(|existing| generation(existing) == newest)
        })
        .count();
    if !has_stray && (outdated == 0 || (outdated == 1 && is_complete)) {
        newest
    } else {
        newest.saturating_add(1)
    }
}

// === impl Pool ===

impl Pool {
    fn slots<'a>(
        &self,
        devices: &'a [Device],
        stored_forms: &StoredForms,
        own: &[&'a ResourceSlice],
    ) -> Vec<Slot<'a>> {
        let adopted = self.adopt(own);
        let layout = layout::assign(devices, &stored_names(&adopted, devices.len()));
        let count = layout.len();
        let slots = layout.into_iter().enumerate();
        let slot = |(index, devices): (usize, Vec<&'a Device>)| {
            let existing = adopted.get(&index).copied();
            let up_to_date = existing
                .is_some_and(|existing| is_up_to_date(existing, &devices, count, stored_forms));
            Slot {
                index,
                devices,
                existing,
                up_to_date,
            }
        };
        slots.map(slot).collect()
    }

    /// Chooses one stored slice for each index. All publishers must choose the same ones.
    fn adopt<'a>(&self, own: &[&'a ResourceSlice]) -> BTreeMap<usize, &'a ResourceSlice> {
        let mut adopted: BTreeMap<usize, &ResourceSlice> = BTreeMap::new();
        for slice in own.iter().copied().filter(|slice| self.can_adopt(slice)) {
            let Some(index) = index(name(slice)) else {
                continue;
            };
            let best = adopted.entry(index).or_insert(slice);
            let generations = (slice.spec.pool.generation, best.spec.pool.generation);
            // Slices come in order of names: the first one of a generation wins.
            if generations.0 > generations.1 {
                *best = slice;
            }
        }
        adopted
    }

    // req: KUBELET-44
    fn can_adopt(&self, slice: &ResourceSlice) -> bool {
        slice.spec.pool.name == self.node
            && slice.spec.node_name.as_deref() == Some(&self.node)
            && slice.spec.driver == self.driver
            && slice.metadata.deletion_timestamp.is_none()
    }

    /// Returns `None` if the stored slice is up to date.
    // req: KUBELET-47
    fn write(
        &self,
        slot: &Slot<'_>,
        count: usize,
        generation: i64,
    ) -> Result<Option<Step>, SliceError> {
        let owners = Some(vec![self.owner()]);
        let Some(existing) = slot.existing else {
            let metadata = ObjectMeta {
                name: Some(self.slice_name(slot.index)?),
                owner_references: owners,
                ..Default::default()
            };
            let spec = self.spec(slot, count, generation);
            return Ok(Some(Step::Create(ResourceSlice { metadata, spec })));
        };
        let same_generation = existing.spec.pool.generation == generation;
        if slot.up_to_date && same_generation && existing.metadata.owner_references == owners {
            return Ok(None);
        }
        let mut slice = existing.clone();
        slice.metadata.owner_references = owners;
        slice.spec = self.spec(slot, count, generation);
        Ok(Some(Step::Replace(slice)))
    }

    /// The first of `INDEX-DRIVER-NODE`, `INDEX-DRIVER-NODE-2` and so on that is not taken.
    /// Publishers of the pool with the same taken names choose the same name.
    fn slice_name(&self, index: usize) -> Result<String, SliceError> {
        let plain = format!("{index:05x}-{}-{}", self.driver, self.node);
        let others = (2u32..).map(|number| format!("{plain}-{number}"));
        let mut names = std::iter::once(plain.clone()).chain(others);
        let name = names.find(|name| !self.taken.contains(name));
        let name = name.unwrap_or(plain); // always found: there are more numbers than taken names
        if name.len() > MAX_OBJECT_NAME {
            return Err(SliceError::NameTooLong { name });
        }
        Ok(name)
    }

    fn spec(&self, slot: &Slot<'_>, count: usize, generation: i64) -> ResourceSliceSpec {
        let stored = slot.existing.map(stored).unwrap_or_default();
        let before = |name: &str| stored.iter().find(|before| before.name == name);
        let devices = slot.devices.iter();
        let devices = devices.map(|device| with_stored_taint_times(device, before(&device.name)));
        ResourceSliceSpec {
            driver: self.driver.clone(),
            node_name: Some(self.node.clone()),
            pool: ResourcePool {
                name: self.node.clone(),
                generation,
                resource_slice_count: count_of(count),
            },
            devices: Some(devices.collect()),
            ..Default::default()
        }
    }

    /// The owner is the Node: its deletion garbage-collects the slices.
    // req: KUBELET-43
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

fn is_up_to_date(
    existing: &ResourceSlice,
    devices: &[&Device],
    count: usize,
    stored_forms: &StoredForms,
) -> bool {
    let stored = stored(existing);
    let pairs = || devices.iter().zip(stored);
    existing.spec.pool.resource_slice_count == count_of(count)
        && existing
            .spec
            .shared_counters
            .as_ref()
            .is_none_or(Vec::is_empty)
        && stored.len() == devices.len()
        && pairs().all(|(device, stored)| stored_forms.matches(device, stored))
}

/// The device names of each slice of the newest generation. Empty if the pool has more slices
/// than devices, so that the layout must change.
fn stored_names<'a>(
    adopted: &BTreeMap<usize, &'a ResourceSlice>,
    devices: usize,
) -> Vec<StoredNames<'a>> {
    let generation = |slice: &ResourceSlice| slice.spec.pool.generation;
    let newest = adopted.values().map(|slice| generation(slice)).max();
    let current = |slice: &&&ResourceSlice| Some(generation(slice)) == newest;
    let counts = adopted.values().find(current);
    let count = counts.map_or(0, |slice| slice.spec.pool.resource_slice_count);
    let count = usize::try_from(count).unwrap_or_default();
    if count > devices.max(1) {
        return Vec::new();
    }
    let names = |slice: &&'a ResourceSlice| {
        let stored = stored(slice).iter();
        stored.map(|device| device.name.as_str()).collect()
    };
    (0..count)
        .map(|index| adopted.get(&index).filter(current).map(names))
        .collect()
}

fn stored(slice: &ResourceSlice) -> &[Device] {
    slice.spec.devices.as_deref().unwrap_or_default()
}

fn count_of(slices: usize) -> i64 {
    i64::try_from(slices).unwrap_or(i64::MAX)
}

/// Parses the slice's index in its pool from its name: at least 5 hexadecimal digits before
/// the first dash.
fn index(name: &str) -> Option<usize> {
    let (digits, _) = name.split_once('-')?;
    let valid = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| usize::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
