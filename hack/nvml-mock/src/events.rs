//! The file of events, which all processes share.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};

use serde::Deserialize;

use crate::config;

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    /// The index of the device.
    pub(crate) gpu: usize,
    /// The number of the type in `nvml.h`: 8 is an XID.
    #[serde(rename = "type")]
    pub(crate) kind: u64,
    /// The code of an XID.
    #[serde(default)]
    pub(crate) data: u64,
    #[serde(default = "unset")]
    pub(crate) gpu_instance: u32,
    #[serde(default = "unset")]
    pub(crate) compute_instance: u32,
}

const FILE: &str = "nvml-mock.events";

fn unset() -> u32 {
    u32::MAX
}

/// The length of the file.
pub(crate) fn end() -> u64 {
    let file = config::beside(FILE).and_then(|path| fs::metadata(path).ok());
    file.map_or(0, |file| file.len())
}

/// The event of the first complete line from `position` on, which then is behind it. Lines that are no event are skipped.
pub(crate) fn read(position: &mut u64) -> Option<Event> {
    if end() <= *position {
        return None;
    }
    let mut file = File::open(config::beside(FILE)?).ok()?;
    file.seek(SeekFrom::Start(*position)).ok()?;
    let mut file = BufReader::new(file);
    loop {
        let mut line = String::new();
        file.read_line(&mut line).ok()?;
        if !line.ends_with('\n') {
            return None;
        }
        *position += u64::try_from(line.len()).ok()?;
        if let Ok(event) = serde_json::from_str(&line) {
            return Some(event);
        }
    }
}
