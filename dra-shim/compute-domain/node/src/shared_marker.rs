//! The marker file beside the checkpoint. It exists if claims share the node's device or have
//! shared it. Its content is for administrators and `cdi-gen doctor`.

/// The file's name.
pub const SHARED_MARKER: &str = "device-is-shared";

/// The second line of a file that has [`is_dropped`](SharedMarker::is_dropped).
const DROPPED: &str = "the API server does not store that claims share it";

/// Content of the file. A file without a number means 1 slot: only its existence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedMarker {
    /// The number of claims that the device is published for.
    pub slots: u32,
    /// Whether the API server drops the fields for sharing the device (feature gate
    /// `DRAConsumableCapacity` is off): then only one claim can have it at a time.
    pub is_dropped: bool,
}

// === impl SharedMarker ===

impl SharedMarker {
    /// The content of the file.
    pub fn encode(self) -> String {
        let Self { slots, is_dropped } = self;
        if is_dropped {
            format!("{slots}\n{DROPPED}\n")
        } else {
            slots.to_string()
        }
    }

    /// Decodes the content of a file.
    pub fn decode(content: &[u8]) -> Self {
        let text = std::str::from_utf8(content).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        Self {
            slots: lines.next().and_then(|it| it.parse().ok()).unwrap_or(1),
            is_dropped: lines.next() == Some(DROPPED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_round_trips_and_any_file_is_a_marker() {
        for is_dropped in [false, true] {
            let slots = 64;
            let marker = SharedMarker { slots, is_dropped };
            assert_eq!(SharedMarker::decode(marker.encode().as_bytes()), marker);
        }
        for (content, slots) in [
            (&b"8"[..], 8),
            (b"64\n", 64),
            (b"", 1),
            (b"x", 1),
            (b"\xff", 1),
        ] {
            let marker = SharedMarker::decode(content);
            assert_eq!(
                (marker.slots, marker.is_dropped),
                (slots, false),
                "{content:?}"
            );
        }
    }
}
