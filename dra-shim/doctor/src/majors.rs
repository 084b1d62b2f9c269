//! The majors of character device drivers, from a host's /proc/devices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use imex_cdi::{CHANNEL_DIR, CHANNEL_DRIVER, Major, channel_major, read_device_list};

/// The character device drivers of a host and their majors.
#[derive(Debug)]
pub struct Majors {
    list: PathBuf,
    /// `None` if the list has no unambiguous IMEX driver.
    channels: Option<Major>,
    /// The first driver of each major.
    drivers: BTreeMap<i64, String>,
}

// === impl Majors ===

impl Majors {
    /// Reads `list`, a `/proc/devices`; `None` if it cannot be read.
    pub fn read(list: &Path) -> Option<Self> {
        let text = read_device_list(list).ok()?;
        Some(Self::parse(list, &text))
    }

    fn parse(list: &Path, text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.skip_while(|line| *line != "Character devices:");
        let lines = lines.take_while(|line| *line != "Block devices:");
        let mut drivers = BTreeMap::new();
        for (number, name) in lines.filter_map(|line| line.split_once(char::is_whitespace)) {
            if let Ok(major) = number.parse() {
                drivers
                    .entry(major)
                    .or_insert_with(|| name.trim().to_owned());
            }
        }
        Self {
            list: list.to_owned(),
            channels: channel_major(text).ok(),
            drivers,
        }
    }

    /// Whether the list has the driver of the IMEX channels.
    pub fn has_channels(&self) -> bool {
        self.channels.is_some()
    }

    /// The major of a driver in the list.
    pub fn major_of(&self, driver: &str) -> Option<i64> {
        let mut drivers = self.drivers.iter();
        drivers.find_map(|(major, name)| (name == driver).then_some(*major))
    }

    /// Why a channel's device node cannot have this major, according to the list;
    /// `None` if it can.
    pub fn contradiction(&self, major: i64) -> Option<String> {
        let list = self.list.display();
        match (self.channels, self.drivers.get(&major)) {
            (Some(now), _) if i64::from(now.get()) == major => None,
            (Some(now), _) => {
                let now = now.get();
                Some(format!(
                    "major {major} is not the major of {CHANNEL_DRIVER}, which is {now} ({list})"
                ))
            }
            (None, Some(driver)) if driver != CHANNEL_DRIVER => {
                Some(format!("major {major} belongs to {driver} ({list})"))
            }
            (None, _) => None,
        }
    }
}

/// Whether a device node at this path is an IMEX channel's.
pub(crate) fn is_channel_path(path: &str) -> bool {
    let name = path.strip_prefix(CHANNEL_DIR);
    let number = name.and_then(|name| name.strip_prefix("/channel"));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contradiction(text: &str, major: i64) -> Option<String> {
        let majors = Majors::parse(Path::new("/proc/devices"), text);
        majors.contradiction(major)
    }

    #[test]
    fn only_the_drivers_own_major_can_be_a_channels() {
        let loaded = "Character devices:\n195 nvidia\n236 nvidia-caps-imex-channels\n\
                      Block devices:\n235 sd\n";
        assert_eq!(contradiction(loaded, 236), None);
        let found = "major 235 is not the major of nvidia-caps-imex-channels, which is 236 \
                     (/proc/devices)";
        assert_eq!(contradiction(loaded, 235).as_deref(), Some(found));
    }

    #[test]
    fn without_the_driver_a_major_is_wrong_if_it_belongs_to_another_driver() {
        let other = "Character devices:\n235 nvidia-uvm\n\nBlock devices:\n236 sd\n";
        let found = "major 235 belongs to nvidia-uvm (/proc/devices)";
        assert_eq!(contradiction(other, 235).as_deref(), Some(found));
        assert_eq!(contradiction(other, 236), None, "a block device's");
        assert_eq!(contradiction("", 235), None);
    }

    #[test]
    fn the_path_identifies_a_channels_node() {
        assert!(is_channel_path("/dev/nvidia-caps-imex-channels/channel0"));
        for path in [
            "/dev/nvidia-caps-imex-channels/channel",
            "/dev/nvidia-caps-imex-channels/channelx",
            "/dev/nvidia0",
        ] {
            assert!(!is_channel_path(path), "{path}");
        }
    }
}
