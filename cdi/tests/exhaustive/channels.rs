//! Channel ids, their names, and their device nodes.

use std::collections::BTreeSet;

use imex_cdi::{
    CHANNEL_DIR, ChannelId, ChannelIdError, ContainerEdits, Device, DeviceNode, DeviceType, Kind,
    Lint, Major, Permissions, Spec, channel_edits, channel_node,
};

use crate::scope::{boundaries, decimal, strings};

fn channel(id: u32) -> ChannelId {
    ChannelId::new(id).unwrap()
}

fn all_channels() -> impl Iterator<Item = ChannelId> {
    (0..ChannelId::LIMIT).map(channel)
}

/// What `text` should be read as, from the definition of a DRA device's name.
fn model(text: &str) -> Result<u32, ChannelIdError> {
    let number = text.strip_prefix("channel-").and_then(decimal);
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(id) if id < 1 << 20 => Ok(id),
        Some(id) => Err(ChannelIdError::OutOfRange(id)),
        None => Err(ChannelIdError::NotAChannel(text.to_owned())),
    }
}

fn assert_is_modelled(text: &str) {
    let read = ChannelId::from_device_name(text);
    assert_eq!(read.clone().map(ChannelId::get), model(text), "{text:?}");
    if let Ok(channel) = read {
        assert_eq!(channel.device_name().as_str(), text);
    }
}

/// Scope: both sides of every 16-bit and power-of-two boundary of 32 bits.
// req: CDI-29
#[test]
fn a_channel_is_a_number_of_20_bits() {
    for id in boundaries() {
        let expected = match id >> 20 {
            0 => Ok(id),
            _ => Err(ChannelIdError::OutOfRange(id)),
        };
        assert_eq!(ChannelId::new(id).map(ChannelId::get), expected);
    }
}

/// Scope: all 2^20 channels. With the next test: names and channels are in
/// bijection.
#[test]
fn every_channels_name_reads_back_as_that_channel() {
    for channel in all_channels() {
        let name = channel.device_name();
        assert_eq!(ChannelId::from_device_name(name.as_str()), Ok(channel));
    }
}

/// Scope: after the prefix, every string of at most 6 characters over `0`, `1`,
/// `9`, both signs, a letter and a space, every string of at most 9 over `0`, `1`
/// and `4`, and every number within 1 000 of where ids and 32 bits end, with and
/// without a needless zero.
#[test]
fn a_name_is_read_only_as_the_channel_that_has_it() {
    let ends = [1_u64 << 20, 1 << 32];
    let numbers = ends.iter().flat_map(|end| end - 1000..end + 1000);
    let numbers = numbers.flat_map(|number| [number.to_string(), format!("0{number}")]);
    for rest in strings("019+-x ", 6)
        .chain(strings("014", 9))
        .chain(numbers)
    {
        assert_is_modelled(&format!("channel-{rest}"));
    }
}

/// Scope: every deletion, replacement and insertion of one ASCII character in a
/// channel's name.
#[test]
fn a_name_with_a_typing_error_is_another_channels_or_none() {
    for name in ["channel-0", "channel-7", "channel-2047"] {
        for at in 0..=name.len() {
            let (before, after) = name.split_at(at);
            let rest = after.get(1..).unwrap_or_default();
            assert_is_modelled(&format!("{before}{rest}"));
            for c in (0..128).map(char::from) {
                assert_is_modelled(&format!("{before}{c}{rest}"));
                assert_is_modelled(&format!("{before}{c}{after}"));
            }
        }
    }
}

fn node_of(path: String, major: u32, minor: u32) -> DeviceNode {
    DeviceNode {
        path,
        host_path: None,
        device_type: Some(DeviceType::Char),
        major: Some(major.into()),
        minor: Some(minor.into()),
        file_mode: Some(0o666),
        permissions: Some(Permissions::READ_WRITE),
        uid: None,
        gid: None,
    }
}

/// Scope: all 2 048 channels of a default driver with the lowest and highest major
/// and two common ones; all 4 095 majors with the first, the last default and the
/// last channel.
// req: CDI-29
#[test]
fn a_node_has_the_path_and_the_numbers_of_its_channel() {
    let some_majors = [1, 235, 511, Major::MAX];
    let by_channel = (0..2048).flat_map(|id| some_majors.map(|major| (id, major)));
    let some_ids = [0, 2047, ChannelId::LIMIT - 1];
    let by_major = (1..=Major::MAX).flat_map(|major| some_ids.map(|id| (id, major)));
    for (id, major) in by_channel.chain(by_major) {
        let path = format!("/dev/nvidia-caps-imex-channels/channel{id}");
        let node = channel_node(channel(id), Major::new(major).unwrap());
        assert_eq!(node, node_of(path, major, id));
    }
}

/// Scope: all 2^20 channels.
#[test]
fn no_two_channels_share_a_path_or_a_minor() {
    let major = Major::new(235).unwrap();
    let mut last_minor = None;
    for channel in all_channels() {
        let node = channel_node(channel, major);
        let name = node.path.strip_prefix(CHANNEL_DIR).unwrap();
        let id = name.strip_prefix("/channel").and_then(decimal);
        assert_eq!(id, Some(channel.get().into()), "{}", node.path);
        assert!(node.minor > last_minor);
        last_minor = node.minor;
    }
}

/// Scope: all 4 095 majors with both sides of every power of two as channel. The
/// numbers fill the kernel's 12 and 20 bits, so no two pairs share a device.
#[test]
fn every_pair_of_numbers_is_a_device_number_of_its_own() {
    assert_eq!(Major::MAX << 20 | (ChannelId::LIMIT - 1), u32::MAX);
    let minors: BTreeSet<u32> = (0..20)
        .flat_map(|bit| [(1 << bit) - 1, 1 << bit])
        .chain([ChannelId::LIMIT - 1])
        .collect();
    for major in 1..=Major::MAX {
        for minor in &minors {
            let device = nix::sys::stat::makedev(major.into(), (*minor).into());
            let (major_of, minor_of) =
                (nix::sys::stat::major(device), nix::sys::stat::minor(device));
            assert_eq!((major_of, minor_of), (major.into(), (*minor).into()));
        }
    }
}

/// Scope: all 2 048 channels of a default driver.
#[test]
fn the_devices_of_all_channels_are_read_back_from_a_spec() {
    let kind = Kind::compute_domain_claim();
    let device = |id| Device {
        name: channel(id).device_name(),
        annotations: [].into(),
        container_edits: channel_edits(channel(id), Major::new(235).unwrap()),
    };
    let spec = Spec::new(kind, (0..2048).map(device).collect()).unwrap();
    let read = Spec::from_json(&spec.to_json()).unwrap();
    assert_eq!(read, spec);
    assert_eq!(read.warnings(), []);
    for (id, device) in (0..).zip(read.devices()) {
        assert_eq!(
            ChannelId::from_device_name(device.name.as_str()),
            Ok(channel(id))
        );
        assert_eq!(
            device.container_edits.device_nodes[0].minor,
            Some(id.into())
        );
    }
}

/// Scope: all 2 048 paths of a default driver, each with its own minor and with
/// those of both neighbours.
#[test]
fn another_channels_minor_at_a_channels_path_is_a_warning() {
    for id in 0..2048_i64 {
        for minor in [id - 1, id, id + 1] {
            let node = DeviceNode {
                minor: Some(minor),
                ..channel_node(
                    channel(u32::try_from(id).unwrap()),
                    Major::new(235).unwrap(),
                )
            };
            let device = Device {
                name: channel(0).device_name(),
                annotations: [].into(),
                container_edits: ContainerEdits {
                    device_nodes: vec![node],
                    ..ContainerEdits::default()
                },
            };
            let spec = Spec::new(Kind::compute_domain_claim(), vec![device]).unwrap();
            let warnings = spec.warnings();
            let warned = warnings
                .iter()
                .any(|warning| warning.lint == Lint::ChannelMismatch);
            assert_eq!(warned, minor != id, "channel{id} with minor {minor}");
        }
    }
}
