//! Numbers of a device node: impossible or probably mistaken ones.

use super::channel::channel_of;
use super::found::Warnings;
use super::warning::Lint;
use crate::imex::MODE_BITS;
use crate::spec::Field;
use crate::{ChannelId, DeviceNode, DeviceType, Major};

impl Warnings<'_> {
    pub(super) fn numbers(&mut self, field: Field, node: &DeviceNode) {
        self.mode(field.leaf("fileMode"), node);
        self.id(field.leaf("uid"), node.uid);
        self.id(field.leaf("gid"), node.gid);
        if node.device_type == Some(DeviceType::Fifo) {
            for (leaf, number) in [("major", node.major), ("minor", node.minor)] {
                if number.is_some_and(|number| number != 0) {
                    self.add(field.leaf(leaf), Lint::NumberOfFifo);
                }
            }
            return;
        }
        // The CDI library reads 0 as absent.
        let major = node.major.filter(|major| *major != 0);
        if major.is_some_and(|major| !(1..=i64::from(Major::MAX)).contains(&major)) {
            self.add(field.leaf("major"), Lint::OutOfRange);
        }
        let minors = 0..i64::from(ChannelId::LIMIT);
        if node.minor.is_some_and(|minor| !minors.contains(&minor)) {
            self.add(field.leaf("minor"), Lint::OutOfRange);
        }
        match (major, node.minor) {
            (Some(_), None) => self.add(field.leaf("major"), Lint::MissingMinor),
            (None, Some(_)) => self.add(field.leaf("minor"), Lint::MissingMajor),
            (Some(_), Some(minor)) => {
                let channel = channel_of(node).map(|channel| i64::from(channel.get()));
                if channel.is_some_and(|channel| channel != minor) {
                    self.add(field.leaf("minor"), Lint::ChannelMismatch);
                }
            }
            (None, None) => {}
        }
        if major.is_some() && node.device_type.is_none() {
            self.add(field.leaf("major"), Lint::MissingType);
        }
        if node.device_type == Some(DeviceType::Unbuffered) {
            self.add(field.leaf("type"), Lint::NoCgroupRule);
        }
    }

    /// Checks an id: the highest one means no user or group to the kernel.
    pub(super) fn id(&mut self, field: Field, id: Option<u32>) {
        if id == Some(u32::MAX) {
            self.add(field, Lint::OutOfRange);
        }
    }

    fn mode(&mut self, field: Field, node: &DeviceNode) {
        let Some(mode) = node.file_mode else { return };
        if mode > MODE_BITS {
            self.add(field, Lint::OutOfRange);
        } else if looks_octal(mode) {
            self.add(field, Lint::ModeLooksOctal);
        }
    }
}

/// Whether the decimal digits of `mode` are a plausible mode in octal (three
/// digits, readable by the owner), while its actual bits are implausible.
fn looks_octal(mode: u32) -> bool {
    let digits = mode.to_string();
    let octal = u32::from_str_radix(&digits, 8);
    digits.len() == 3
        && octal.is_ok_and(|meant| meant & 0o400 != 0)
        && (mode & 0o7000 != 0 || mode & 0o400 == 0)
}
