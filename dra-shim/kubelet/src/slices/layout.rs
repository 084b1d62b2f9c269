//! The layout of a pool: assigns devices to slices.
//!
//! A device remains in its slice, so that a change of one device changes one slice and needs
//! no new generation. If the number of slices must change, all devices are laid out again in
//! the driver's order: then every slice is written in any case.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::Device;

use super::error::SliceError;
use crate::names::is_label;

/// Maximum number of devices in a slice. The API server allows 128, but only 64 if a device
/// of the slice has a taint, consumes counters or has list attributes. Any device may need a
/// taint later, which a slice of 65 devices could not get.
pub(super) const MAX_DEVICES: usize = 64;

/// The device names of one stored slice; `None` if the slice is missing or of an older
/// generation.
pub(super) type StoredNames<'a> = Option<BTreeSet<&'a str>>;

/// Returns the devices of each slice, by index: at most [`MAX_DEVICES`] each, in the driver's
/// order. No slice is empty, except the only slice of an empty pool.
pub(super) fn assign<'a>(
    devices: &'a [Device],
    stored: &[StoredNames<'_>],
) -> Vec<Vec<&'a Device>> {
    keep_in_place(devices, stored).unwrap_or_else(|| lay_out(devices))
}

/// Creates slices of [`MAX_DEVICES`] devices, regardless of the stored slices.
// req: KUBELET-41
fn lay_out(devices: &[Device]) -> Vec<Vec<&Device>> {
    if devices.is_empty() {
        return vec![Vec::new()];
    }
    let chunks = devices.chunks(MAX_DEVICES);
    chunks.map(|chunk| chunk.iter().collect()).collect()
}

/// Keeps every device in its slice, and puts new devices where there is room. Returns `None`
/// if the number of slices must change.
fn keep_in_place<'a>(
    devices: &'a [Device],
    stored: &[StoredNames<'_>],
) -> Option<Vec<Vec<&'a Device>>> {
    let mut homes = BTreeMap::new();
    for (slot, names) in stored.iter().enumerate() {
        for name in names.iter().flatten() {
            homes.entry(*name).or_insert(slot);
        }
    }
    let mut room = vec![MAX_DEVICES; stored.len()];
    for device in devices {
        if let Some(&slot) = homes.get(device.name.as_str()) {
            let room = room.get_mut(slot)?;
            *room = room.checked_sub(1)?;
        }
    }
    // Missing slices are filled first, with the devices that they had.
    let missing = (0..stored.len()).filter(|&slot| matches!(stored.get(slot), Some(None)));
    let present = (0..stored.len()).filter(|&slot| matches!(stored.get(slot), Some(Some(_))));
    let order: Vec<usize> = missing.chain(present).collect();

    let mut slices = vec![Vec::new(); stored.len()];
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
    let is_valid = slices.len() == 1 || slices.iter().all(|slice| !slice.is_empty());
    (is_valid && !slices.is_empty()).then_some(slices)
}

/// Rejects devices that the API server would reject, and duplicate names: the scheduler
/// allocates nothing from a pool with duplicates.
// req: KUBELET-42
pub(super) fn validate(devices: &[Device]) -> Result<(), SliceError> {
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

    fn stored<'a>(layout: &[Vec<&'a Device>]) -> Vec<StoredNames<'a>> {
        let names =
            |slice: &Vec<&'a Device>| slice.iter().map(|device| device.name.as_str()).collect();
        layout.iter().map(|slice| Some(names(slice))).collect()
    }

    fn sizes(layout: &[Vec<&Device>]) -> Vec<usize> {
        layout.iter().map(Vec::len).collect()
    }

    // req: KUBELET-41
    #[test]
    fn a_new_pool_is_split_into_slices_of_64_in_the_drivers_order() {
        assert_eq!(sizes(&assign(&[], &[])), [0]);
        assert_eq!(sizes(&assign(&mk_numbered(0..64), &[])), [64]);
        let devices = mk_numbered(0..130);
        let layout = assign(&devices, &[]);
        assert_eq!(sizes(&layout), [64, 64, 2]);
        assert_eq!(layout[1][0].name, "d64");
    }

    #[test]
    fn adding_or_removing_a_device_leaves_the_other_slices_unchanged() {
        let before = mk_numbered(0..130);
        let layout = assign(&before, &[]);
        let mut after = before.clone();
        after.remove(3);
        let shrunk = assign(&after, &stored(&layout));
        assert_eq!(sizes(&shrunk), [63, 64, 2]);
        assert_eq!(shrunk[1..], layout[1..]);

        let mut grown = mk_devices(["new".to_owned()]);
        grown.extend(after.clone());
        let filled = assign(&grown, &stored(&shrunk));
        assert_eq!(sizes(&filled), [64, 64, 2]);
        assert_eq!(filled[0][0].name, "new");
        assert_eq!(filled[1..], layout[1..]);
    }

    #[test]
    fn a_slice_that_would_be_empty_or_overfull_leads_to_a_new_layout() {
        let devices = mk_numbered(0..65);
        let layout = assign(&devices, &[]);
        let fewer = &devices[..64];
        assert_eq!(sizes(&assign(fewer, &stored(&layout))), [64]);
        let full = assign(fewer, &[]);
        assert_eq!(sizes(&assign(&devices, &stored(&full))), [64, 1]);
        // A slice of 100, written by another implementation.
        let many = mk_numbered(0..100);
        let one = vec![many.iter().collect()];
        assert_eq!(sizes(&assign(&many, &stored(&one))), [64, 36]);
    }

    #[test]
    fn the_devices_of_a_missing_slice_return_to_it() {
        let devices = mk_numbered(0..130);
        let mut layout = assign(&devices, &[]);
        layout[2].push(&devices[3]);
        layout[0].remove(3);
        for lost in 0..3 {
            let mut seen = stored(&layout);
            seen[lost] = None;
            let again = assign(&devices, &seen);
            for (slot, slice) in again.iter().enumerate() {
                let names: BTreeSet<_> = slice.iter().map(|device| &device.name).collect();
                let before: BTreeSet<_> = layout[slot].iter().map(|device| &device.name).collect();
                assert_eq!(names, before, "slice {slot} after the loss of {lost}");
            }
        }
    }

    // req: KUBELET-42
    #[test]
    fn invalid_and_duplicate_device_names_are_rejected() {
        for name in ["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(64)] {
            let devices = mk_devices([name.to_owned()]);
            let error = validate(&devices).unwrap_err();
            assert!(matches!(error, SliceError::DeviceName { .. }), "{name}");
        }
        let error = validate(&mk_devices(["a", "b", "a"].map(str::to_owned))).unwrap_err();
        assert!(matches!(&error, SliceError::DuplicateDevice { name } if name == "a"));
        assert!(error.is_permanent());
        validate(&mk_devices(
            ["0", "gpu-0", &"a".repeat(63)].map(str::to_owned),
        ))
        .unwrap();
    }
}
