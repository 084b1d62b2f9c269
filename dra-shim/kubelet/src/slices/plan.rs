//! The publisher's decisions, without I/O: from what should be and what is to the
//! requests that lead there.
//!
//! Rules of the API and its consumers that shape them: the scheduler uses the
//! slices of a pool's highest generation only, and only if their number is the
//! pool's `resourceSliceCount`; slices are tried in order of their names, so names
//! begin with the slice's index in hexadecimal; driver, pool name and node name of
//! a slice are immutable.
//!
//! # What a scheduler sees between the requests
//!
//! The pool as it was, the pool as it should be, or nothing; never some slices of
//! each, and never a device twice. That follows from when a generation is kept:
//!
//! * one slice of a complete pool differs: its write alone leads from old to new;
//! * every slice of the newest generation is right and some are missing: the pool
//!   is invisible until the last of them is written;
//! * otherwise the generation grows by one and every slice is written: the first
//!   write hides the pool and the last one shows it.
//!
//! That holds for the pool that is published. One of another name has no new state;
//! it is deleted before the published one changes, slice by slice.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourcePool, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::SliceError;
use super::accepted::Accepted;
use super::layout::{self, Held, MAX_NAME};
use super::seen::name;

/// Whose pool it is.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) driver: String,
    pub(super) node: String,
    pub(super) node_uid: String,
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

/// Requests that may be made side by side. A stage begins when all of the one
/// before have succeeded.
pub(super) type Stage = Vec<Step>;

/// One slice as it should be, and the object that becomes it.
struct Slot<'a> {
    index: usize,
    devices: Vec<&'a Device>,
    kept: Option<&'a ResourceSlice>,
    /// Whether a scheduler would see the right thing in `kept`.
    right: bool,
}

/// The stages that make the pool hold `devices`; none if it does.
///
/// First the slices of other pools go: they may name the same devices. Then the
/// pool is written, in place where a slice with the index is there, whoever made it
/// and whatever its suffix. What the new state has outdated goes last.
pub(super) fn publish(
    pool: &Pool,
    devices: &[Device],
    accepted: &Accepted,
    observed: &BTreeMap<String, ResourceSlice>,
) -> Result<Vec<Stage>, SliceError> {
    layout::check(devices)?;
    let (own, others): (Vec<_>, Vec<_>) = observed
        .values()
        .partition(|slice| slice.spec.pool.name == pool.node);
    let slots = pool.slots(devices, accepted, &own);
    let generation = next_generation(&own, &slots);

    let count = slots.len();
    let writes = slots
        .iter()
        .filter_map(|slot| pool.write(slot, count, generation).transpose());
    let writes = writes.collect::<Result<Stage, _>>()?;
    let outdated = own.into_iter().filter(|slice| !is_kept(slice, &slots));
    let stages = [delete(others), writes, delete(outdated)];
    Ok(stages
        .into_iter()
        .filter(|stage| !stage.is_empty())
        .collect())
}

/// The requests that leave no slice of this driver and node.
pub(super) fn withdraw(observed: &BTreeMap<String, ResourceSlice>) -> Stage {
    delete(observed.values())
}

/// What is being deleted already would only be asked again.
fn delete<'a>(slices: impl IntoIterator<Item = &'a ResourceSlice>) -> Stage {
    let slices = slices.into_iter();
    let slices = slices.filter(|slice| slice.metadata.deletion_timestamp.is_none());
    slices.cloned().map(Step::Delete).collect()
}

fn is_kept(slice: &ResourceSlice, slots: &[Slot<'_>]) -> bool {
    let kept = slots.iter().filter_map(|slot| slot.kept);
    kept.into_iter().any(|kept| name(kept) == name(slice))
}

/// See the module's documentation for why that is safe.
fn next_generation(own: &[&ResourceSlice], slots: &[Slot<'_>]) -> i64 {
    let generation = |slice: &ResourceSlice| slice.spec.pool.generation;
    let Some(newest) = own.iter().map(|slice| generation(slice)).max() else {
        return 1;
    };
    let current = || own.iter().filter(|slice| generation(slice) == newest);
    let has_stray = current().any(|slice| !is_kept(slice, slots));
    let is_whole = current().count() == slots.len();
    let wrong = slots
        .iter()
        .filter(|slot| !slot.right && slot.kept.is_some_and(|kept| generation(kept) == newest))
        .count();
    if !has_stray && (wrong == 0 || (wrong == 1 && is_whole)) {
        newest
    } else {
        newest.saturating_add(1)
    }
}

impl Pool {
    fn slots<'a>(
        &self,
        devices: &'a [Device],
        accepted: &Accepted,
        own: &[&'a ResourceSlice],
    ) -> Vec<Slot<'a>> {
        let adopted = self.adopt(own);
        let layout = layout::assign(devices, &held(&adopted, devices.len()));
        let count = layout.len();
        let slots = layout.into_iter().enumerate();
        let slot = |(index, devices): (usize, Vec<&'a Device>)| {
            let kept = adopted.get(&index).copied();
            let right = kept.is_some_and(|kept| is_right(kept, &devices, count, accepted));
            Slot {
                index,
                devices,
                kept,
                right,
            }
        };
        slots.map(slot).collect()
    }

    /// One slice per index. Two publishers must choose the same one.
    fn adopt<'a>(&self, own: &[&'a ResourceSlice]) -> BTreeMap<usize, &'a ResourceSlice> {
        let mut adopted: BTreeMap<usize, &ResourceSlice> = BTreeMap::new();
        for slice in own.iter().copied().filter(|slice| self.could_hold(slice)) {
            let Some(index) = index(name(slice)) else {
                continue;
            };
            let best = adopted.entry(index).or_insert(slice);
            let generations = (slice.spec.pool.generation, best.spec.pool.generation);
            // In order of names: the first of a generation stays.
            if generations.0 > generations.1 {
                *best = slice;
            }
        }
        adopted
    }

    fn could_hold(&self, slice: &ResourceSlice) -> bool {
        slice.spec.pool.name == self.node
            && slice.spec.node_name.as_deref() == Some(&self.node)
            && slice.spec.driver == self.driver
            && slice.metadata.deletion_timestamp.is_none()
    }

    /// None if the object is as it should be.
    fn write(
        &self,
        slot: &Slot<'_>,
        count: usize,
        generation: i64,
    ) -> Result<Option<Step>, SliceError> {
        let owners = Some(vec![self.owner()]);
        let Some(kept) = slot.kept else {
            let metadata = ObjectMeta {
                name: Some(self.slice_name(slot.index)?),
                owner_references: owners,
                ..Default::default()
            };
            let spec = self.spec(slot, count, generation);
            return Ok(Some(Step::Create(ResourceSlice { metadata, spec })));
        };
        let same_generation = kept.spec.pool.generation == generation;
        if slot.right && same_generation && kept.metadata.owner_references == owners {
            return Ok(None);
        }
        let mut slice = kept.clone();
        slice.metadata.owner_references = owners;
        slice.spec = self.spec(slot, count, generation);
        Ok(Some(Step::Replace(slice)))
    }

    fn slice_name(&self, index: usize) -> Result<String, SliceError> {
        let name = format!("{index:05x}-{}-{}", self.driver, self.node);
        if name.len() > MAX_NAME {
            return Err(SliceError::NameTooLong { name });
        }
        Ok(name)
    }

    fn spec(&self, slot: &Slot<'_>, count: usize, generation: i64) -> ResourceSliceSpec {
        let stored = slot.kept.map(stored).unwrap_or_default();
        let before = |name: &str| stored.iter().find(|before| before.name == name);
        let devices = slot.devices.iter();
        let devices = devices.map(|device| with_times(device, before(&device.name)));
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

fn is_right(kept: &ResourceSlice, devices: &[&Device], count: usize, accepted: &Accepted) -> bool {
    let stored = stored(kept);
    let pairs = || devices.iter().zip(stored);
    kept.spec.pool.resource_slice_count == count_of(count)
        && kept.spec.shared_counters.as_ref().is_none_or(Vec::is_empty)
        && stored.len() == devices.len()
        && pairs().all(|(device, stored)| accepted.holds(device, stored))
}

/// What each slice of the newest generation holds, as far as that can go on: not if
/// the pool has more slices than there are devices.
fn held<'a>(adopted: &BTreeMap<usize, &'a ResourceSlice>, devices: usize) -> Vec<Held<'a>> {
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

/// The slice's index in its pool: at least 5 hexadecimal digits before the first dash.
fn index(name: &str) -> Option<usize> {
    let (digits, _) = name.split_once('-')?;
    let valid = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| usize::from_str_radix(digits, 16).ok())?
}

/// The device with the server's `timeAdded` on taints that are there already.
pub(super) fn with_times(device: &Device, stored: Option<&Device>) -> Device {
    let mut device = device.clone();
    let before = stored.and_then(|stored| stored.taints.as_deref());
    let taints = device.taints.iter_mut().flatten();
    for taint in taints.filter(|taint| taint.time_added.is_none()) {
        let same = before.into_iter().flatten().find(|other| {
            (&other.key, &other.value, &other.effect) == (&taint.key, &taint.value, &taint.effect)
        });
        taint.time_added = same.and_then(|same| same.time_added.clone());
    }
    device
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
