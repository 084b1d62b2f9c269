//! Numbers of a device node that the kernel cannot have, or that are not those
//! that were meant.

use super::Lint;
use super::find::{Warnings, channel_of};
use crate::params::MODE_BITS;
use crate::spec::Field;
use crate::{ChannelId, DeviceNode, DeviceType, Major};

impl Warnings {
    pub(super) fn numbers(&mut self, field: Field, node: &DeviceNode) {
        self.mode(field.leaf("fileMode"), node);
        self.id(field.leaf("uid"), node.uid);
        self.id(field.leaf("gid"), node.gid);
        if node.device_type == Some(DeviceType::Fifo) {
            for (leaf, number) in [("major", node.major), ("minor", node.minor)] {
                if number.is_some_and(|number| number != 0) {
                    self.add(field.leaf(leaf), Lint::FifoNumber);
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
            (Some(_), None) => self.add(field.leaf("major"), Lint::NoMinor),
            (None, Some(_)) => self.add(field.leaf("minor"), Lint::NoMajor),
            (Some(_), Some(minor)) => {
                let channel = channel_of(node).map(|channel| i64::from(channel.get()));
                if channel.is_some_and(|channel| channel != minor) {
                    self.add(field.leaf("minor"), Lint::OtherChannel);
                }
            }
            (None, None) => {}
        }
        if major.is_some() && node.device_type.is_none() {
            self.add(field.leaf("major"), Lint::NoType);
        }
        if node.device_type == Some(DeviceType::Unbuffered) {
            self.add(field.leaf("type"), Lint::NoCgroupRule);
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

/// Whether `mode` in decimal is three octal digits that let the owner read, and
/// its bits are none that anyone gives a node.
fn looks_octal(mode: u32) -> bool {
    let digits = mode.to_string();
    let octal = u32::from_str_radix(&digits, 8);
    digits.len() == 3
        && octal.is_ok_and(|meant| meant & 0o400 != 0)
        && (mode & 0o7000 != 0 || mode & 0o400 == 0)
}
