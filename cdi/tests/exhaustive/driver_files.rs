//! Numbers in the driver's files.

use std::ops::RangeInclusive;

use imex_cdi::{Capability, DriverParams, DriverTextError};

use crate::scope::{decimal, edges, strings};

/// Asserts that `parse` accepts, as the value of `key`, exactly those of `values` that are decimal
/// numbers in `range`.
fn assert_range(
    key: &str,
    range: &RangeInclusive<u32>,
    parse: impl Fn(&str) -> Result<u32, DriverTextError>,
    values: impl Iterator<Item = String>,
) {
    for value in values {
        let number = decimal(value.trim()).and_then(|number| u32::try_from(number).ok());
        let expected = number.filter(|number| range.contains(number));
        let read = parse(&format!("{key}: {value}\n"));
        assert_eq!(read.ok(), expected, "{key}: {value:?}");
    }
}

/// Scope: each key with both sides of every power of two of 32 bits and of the key's
/// own limit; and every string of at most 4 characters over `0`, `1`, `7`, both
/// signs, a letter and a space.
#[test]
fn every_number_of_the_driver_has_its_range() {
    type Read = fn(&str) -> Result<u32, DriverTextError>;
    let keys: [(&str, RangeInclusive<u32>, Read); 5] = [
        ("ImexChannelCount", 0..=1 << 20, |text| {
            Ok(DriverParams::parse(text)?.imex_channel_count.unwrap())
        }),
        ("DeviceFileMode", 0..=0o7777, |text| {
            Ok(DriverParams::parse(text)?.device_file_mode.unwrap())
        }),
        ("DeviceFileUID", 0..=u32::MAX - 1, |text| {
            Ok(DriverParams::parse(text)?.device_file_uid.unwrap())
        }),
        ("DeviceFileGID", 0..=u32::MAX - 1, |text| {
            Ok(DriverParams::parse(text)?.device_file_gid.unwrap())
        }),
        ("DeviceFileMinor", 0..=(1 << 20) - 1, |text| {
            let text = format!("{text}DeviceFileMode: 256\nDeviceFileModify: 1\n");
            Ok(Capability::parse(&text)?.minor)
        }),
    ];
    for (key, range, read) in keys {
        let numbers = edges(&[*range.end()]).into_iter().map(|n| n.to_string());
        assert_range(key, &range, read, numbers.chain(strings("017+-x ", 4)));
    }
}
