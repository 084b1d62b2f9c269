//! Devices that somebody may have meant.

use super::{Registry, Resolved};
use crate::{DeviceName, QualifiedName};

/// A device that resembles the one asked for. It is in a valid file, and may
/// itself be shadowed or in conflict.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum NearMiss<'a> {
    /// The same device name under another kind.
    OtherKind(Resolved<'a>),
    /// The same name but for upper and lower case, which CDI tells apart.
    OtherCase(Resolved<'a>),
    /// The same IMEX channel, spelt as another program does: `channel-0`,
    /// `channel0`, `0`.
    OtherSpelling(Resolved<'a>),
}

pub(super) fn find<'a>(registry: &'a Registry, name: &QualifiedName) -> Vec<NearMiss<'a>> {
    // Of one name, the last is the one that wins if any does.
    let devices = registry.groups().filter_map(|group| group.last());
    let devices = devices.map(|slot| registry.at(*slot));
    devices
        .filter_map(|found| resemblance(found, name))
        .collect()
}

fn resemblance<'a>(found: Resolved<'a>, name: &QualifiedName) -> Option<NearMiss<'a>> {
    let (kind, device) = (found.spec.kind(), &found.device.name);
    let same_kind = kind == name.kind();
    let same_device = device == name.device();
    let alike_device = device.as_str().eq_ignore_ascii_case(name.device().as_str());
    let alike_kind = kind.vendor().eq_ignore_ascii_case(name.kind().vendor())
        && kind.class().eq_ignore_ascii_case(name.kind().class());
    match () {
        () if same_kind && same_device => None,
        () if alike_kind && alike_device => Some(NearMiss::OtherCase(found)),
        () if same_kind && number(device).is_some_and(|n| Some(n) == number(name.device())) => {
            Some(NearMiss::OtherSpelling(found))
        }
        () if same_device => Some(NearMiss::OtherKind(found)),
        () => None,
    }
}

/// The number of a channel, whoever has named it.
fn number(device: &DeviceName) -> Option<u32> {
    let name = device.as_str();
    let name = name.strip_prefix("channel").unwrap_or(name);
    let digits = name.strip_prefix('-').unwrap_or(name);
    let all_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

// === impl NearMiss ===

impl<'a> NearMiss<'a> {
    /// The device.
    pub fn device(&self) -> Resolved<'a> {
        match self {
            Self::OtherKind(found) | Self::OtherCase(found) | Self::OtherSpelling(found) => *found,
        }
    }

    /// A stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OtherKind(_) => "cdi-device-other-kind",
            Self::OtherCase(_) => "cdi-device-other-case",
            Self::OtherSpelling(_) => "cdi-device-other-spelling",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OtherKind(_) => "ask for it by the vendor and class of its file",
            Self::OtherCase(_) => "write the name as its file has it, in upper and lower case",
            Self::OtherSpelling(_) => "write the name as its file has it",
        }
    }
}
