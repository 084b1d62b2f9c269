//! Devices with a name similar to the requested one.

use dra_common::Advice;

use super::index::Registry;
use super::resolution::Resolved;
use crate::{DeviceName, QualifiedName};

/// A device that may have been meant instead of the requested one. It is in a valid file, and may
/// itself be shadowed or in conflict.
#[derive(Debug, Clone, Copy, Advice)]
#[non_exhaustive]
pub enum Suggestion<'a> {
    /// The same device name under another kind.
    #[advice(
        code = "cdi-device-other-kind",
        hint = "request the device with the vendor and class that its CDI spec defines"
    )]
    OtherKind(Resolved<'a>),
    /// The same name in another case: CDI names are case-sensitive.
    #[advice(
        code = "cdi-device-other-case",
        hint = "write the name exactly as the CDI spec defines it: CDI names are case-sensitive"
    )]
    OtherCase(Resolved<'a>),
    /// The same IMEX channel as other programs spell it: `channel-0`, `channel0`
    /// or `0`.
    #[advice(
        code = "cdi-device-other-spelling",
        hint = "write the name exactly as the CDI spec defines it"
    )]
    OtherSpelling(Resolved<'a>),
}

pub(super) fn find<'a>(registry: &'a Registry, name: &QualifiedName) -> Vec<Suggestion<'a>> {
    // Of the entries of one name, the last is the one it resolves to, if any.
    let devices = registry.groups().filter_map(|group| group.last());
    let devices = devices.map(|entry| registry.resolved(*entry));
    devices.filter_map(|found| compare(found, name)).collect()
}

fn compare<'a>(found: Resolved<'a>, name: &QualifiedName) -> Option<Suggestion<'a>> {
    let (kind, device) = (found.spec.kind(), &found.device.name);
    let same_kind = kind == name.kind();
    let same_device = device == name.device();
    let similar_device = device.as_str().eq_ignore_ascii_case(name.device().as_str());
    let similar_kind = kind.vendor().eq_ignore_ascii_case(name.kind().vendor())
        && kind.class().eq_ignore_ascii_case(name.kind().class());
    match () {
        () if same_kind && same_device => None,
        () if similar_kind && similar_device => Some(Suggestion::OtherCase(found)),
        () if same_kind
            && channel_number(device).is_some_and(|n| Some(n) == channel_number(name.device())) =>
        {
            Some(Suggestion::OtherSpelling(found))
        }
        () if same_device => Some(Suggestion::OtherKind(found)),
        () => None,
    }
}

/// The number of a channel in any of its spellings.
fn channel_number(device: &DeviceName) -> Option<u32> {
    let name = device.as_str();
    let name = name.strip_prefix("channel").unwrap_or(name);
    let digits = name.strip_prefix('-').unwrap_or(name);
    let all_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

// === impl Suggestion ===

impl<'a> Suggestion<'a> {
    /// The device.
    pub fn device(&self) -> Resolved<'a> {
        match self {
            Self::OtherKind(found) | Self::OtherCase(found) | Self::OtherSpelling(found) => *found,
        }
    }
}
