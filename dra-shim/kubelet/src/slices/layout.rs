//! Which device goes into which slice of the pool.
//!
//! A device stays in the slice that holds it, so that a change of one device is a
//! change of one slice, which needs no new generation. Only when the number of
//! slices has to change are the devices laid out afresh, in the driver's order:
//! then every slice is written in any case.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::Device;

use super::SliceError;
use crate::names::is_label;

/// The API server allows 128 devices, but 64 as soon as one device of the slice has
/// a taint, consumes counters or has list attributes. A slice of 65 could never get
/// a taint, and any device may need one later.
pub(super) const MAX_DEVICES: usize = 64;
/// `metadata.name`
pub(super) const MAX_NAME: usize = 253;

/// The names in one slice as it is stored; None where the slice is missing or
/// outdated.
pub(super) type Held<'a> = Option<BTreeSet<&'a str>>;

/// The devices of each slice, by index: at most [`MAX_DEVICES`] each, in the
/// driver's order, and never an empty slice but for an empty pool's only one.
pub(super) fn assign<'a>(devices: &'a [Device], held: &[Held<'_>]) -> Vec<Vec<&'a Device>> {
    stay(devices, held).unwrap_or_else(|| afresh(devices))
}

fn afresh(devices: &[Device]) -> Vec<Vec<&Device>> {
    if devices.is_empty() {
        return vec![Vec::new()];
    }
    let chunks = devices.chunks(MAX_DEVICES);
    chunks.map(|chunk| chunk.iter().collect()).collect()
}

/// None if that would need another number of slices.
fn stay<'a>(devices: &'a [Device], held: &[Held<'_>]) -> Option<Vec<Vec<&'a Device>>> {
    let mut homes = BTreeMap::new();
    for (slot, names) in held.iter().enumerate() {
        for name in names.iter().flatten() {
            homes.entry(*name).or_insert(slot);
        }
    }
    let mut room = vec![MAX_DEVICES; held.len()];
    for device in devices {
        if let Some(&slot) = homes.get(device.name.as_str()) {
            let room = room.get_mut(slot)?;
            *room = room.checked_sub(1)?;
        }
    }
    // What a missing slice held is without a home now and goes back there.
    let missing = (0..held.len()).filter(|&slot| matches!(held.get(slot), Some(None)));
    let present = (0..held.len()).filter(|&slot| matches!(held.get(slot), Some(Some(_))));
    let order: Vec<usize> = missing.chain(present).collect();

    let mut slices = vec![Vec::new(); held.len()];
    for device in devices {
        let slot = if let Some(&slot) = homes.get(device.name.as_str()) {
            slot
        } else {
            let has_room = |slot: &&usize| room.get(**slot).is_some_and(|room| *room > 0);
            let slot = *order.iter().find(has_room)?;
            *room.get_mut(slot)? -= 1;
            slot
        };
        slices.get_mut(slot)?.push(device);
    }
    let settled = slices.len() == 1 || slices.iter().all(|slice| !slice.is_empty());
    (settled && !slices.is_empty()).then_some(slices)
}

/// What the API server or the scheduler would refuse over and over: the scheduler
/// allocates nothing at all from a pool with a name that occurs twice.
pub(super) fn check(devices: &[Device]) -> Result<(), SliceError> {
    let mut names = BTreeSet::new();
    for device in devices {
        let name = &device.name;
        if !is_label(name) {
            return Err(SliceError::DeviceName { name: name.clone() });
        }
        if !names.insert(name) {
            return Err(SliceError::DuplicateDevice { name: name.clone() });
        }
        if device
            .consumes_counters
            .as_ref()
            .is_some_and(|counters| !counters.is_empty())
        {
            return Err(SliceError::Counters { name: name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_devices(names: impl IntoIterator<Item = String>) -> Vec<Device> {
        let device = |name| Device {
            name,
            ..Default::default()
        };
        names.into_iter().map(device).collect()
    }

    fn mk_numbered(numbers: std::ops::Range<usize>) -> Vec<Device> {
        mk_devices(numbers.map(|number| format!("d{number}")))
    }

    fn held<'a>(layout: &[Vec<&'a Device>]) -> Vec<Held<'a>> {
        let names =
            |slice: &Vec<&'a Device>| slice.iter().map(|device| device.name.as_str()).collect();
        layout.iter().map(|slice| Some(names(slice))).collect()
    }

    fn sizes(layout: &[Vec<&Device>]) -> Vec<usize> {
        layout.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_new_pool_is_cut_into_slices_of_64_in_the_drivers_order() {
        assert_eq!(sizes(&assign(&[], &[])), [0]);
        assert_eq!(sizes(&assign(&mk_numbered(0..64), &[])), [64]);
        let devices = mk_numbered(0..130);
        let layout = assign(&devices, &[]);
        assert_eq!(sizes(&layout), [64, 64, 2]);
        assert_eq!(layout[1][0].name, "d64");
    }

    #[test]
    fn a_device_that_goes_and_one_that_comes_leave_the_other_slices_alone() {
        let before = mk_numbered(0..130);
        let layout = assign(&before, &[]);
        let mut after = before.clone();
        after.remove(3);
        let shrunk = assign(&after, &held(&layout));
        assert_eq!(sizes(&shrunk), [63, 64, 2]);
        assert_eq!(shrunk[1..], layout[1..]);

        let mut grown = mk_devices(["new".to_owned()]);
        grown.extend(after.clone());
        let filled = assign(&grown, &held(&shrunk));
        assert_eq!(sizes(&filled), [64, 64, 2]);
        assert_eq!(filled[0][0].name, "new");
        assert_eq!(filled[1..], layout[1..]);
    }

    #[test]
    fn a_slice_that_would_be_empty_or_overfull_leads_to_a_fresh_layout() {
        let devices = mk_numbered(0..65);
        let layout = assign(&devices, &[]);
        let fewer = &devices[..64];
        assert_eq!(sizes(&assign(fewer, &held(&layout))), [64]);
        let full = assign(fewer, &[]);
        assert_eq!(sizes(&assign(&devices, &held(&full))), [64, 1]);
        // Another maker's slice of 100.
        let many = mk_numbered(0..100);
        let one = vec![many.iter().collect()];
        assert_eq!(sizes(&assign(&many, &held(&one))), [64, 36]);
    }

    #[test]
    fn the_devices_of_a_missing_slice_go_back_to_where_they_were() {
        let devices = mk_numbered(0..130);
        let mut layout = assign(&devices, &[]);
        layout[2].push(&devices[3]);
        layout[0].remove(3);
        for lost in 0..3 {
            let mut seen = held(&layout);
            seen[lost] = None;
            let again = assign(&devices, &seen);
            for (slot, slice) in again.iter().enumerate() {
                let names: BTreeSet<_> = slice.iter().map(|device| &device.name).collect();
                let before: BTreeSet<_> = layout[slot].iter().map(|device| &device.name).collect();
                assert_eq!(names, before, "slice {slot} after the loss of {lost}");
            }
        }
    }

    #[test]
    fn a_name_that_is_no_label_or_occurs_twice_is_refused_by_name() {
        for name in ["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(64)] {
            let devices = mk_devices([name.to_owned()]);
            let error = check(&devices).unwrap_err();
            assert!(matches!(error, SliceError::DeviceName { .. }), "{name}");
        }
        let error = check(&mk_devices(["a", "b", "a"].map(str::to_owned))).unwrap_err();
        assert!(matches!(&error, SliceError::DuplicateDevice { name } if name == "a"));
        assert!(error.is_permanent());
        check(&mk_devices(
            ["0", "gpu-0", &"a".repeat(63)].map(str::to_owned),
        ))
        .unwrap();
    }
}
