//! Channels in numbers, names and paths.

use super::request::Channels;
use super::view::DeviceView;
use crate::{CHANNEL_DIR, ChannelId};

pub(super) fn of_device(device: &DeviceView<'_>, channels: Option<i64>) -> Option<Channels> {
    let is_char = matches!(device.device_type, "c" | "u");
    if is_char && channels == Some(device.major) {
        return Some(of_number(device.minor));
    }
    of_path(&clean(device.path))
}

/// The channel at a path, or every channel for their directory; `None` for any other path.
pub(super) fn of_path(path: &str) -> Option<Channels> {
    let below = path.strip_prefix(CHANNEL_DIR)?;
    match below.strip_prefix('/') {
        None if below.is_empty() => Some(Channels::Every),
        None => None,
        Some(name) => Some(of_text(name)),
    }
}

/// `3`, `channel3` or `all`.
pub(super) fn of_text(text: &str) -> Channels {
    let number = text.strip_prefix("channel").unwrap_or(text);
    if number == "all" {
        return Channels::Every;
    }
    let id = number.parse().ok().and_then(|id| ChannelId::new(id).ok());
    id.map_or_else(|| Channels::Unreadable(text.to_owned()), Channels::One)
}

pub(super) fn of_number(number: i64) -> Channels {
    let id = u32::try_from(number).ok();
    let id = id.and_then(|id| ChannelId::new(id).ok());
    id.map_or_else(|| Channels::Unreadable(number.to_string()), Channels::One)
}

/// As Go's `filepath.Clean` for an absolute path.
pub(super) fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}
