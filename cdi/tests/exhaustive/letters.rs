//! Device types and permissions, which are letters in a spec.

use imex_cdi::{DeviceType, Permissions};

use crate::scope::strings;

/// Scope: every string of at most two ASCII characters.
#[test]
fn a_device_type_is_one_of_four_letters() {
    let ascii: String = (0..128).map(char::from).collect();
    for text in strings(&ascii, 2) {
        let expected = match text.as_str() {
            "b" => Some(DeviceType::Block),
            "c" => Some(DeviceType::Char),
            "u" => Some(DeviceType::Unbuffered),
            "p" => Some(DeviceType::Fifo),
            _ => None,
        };
        assert_eq!(text.parse().ok(), expected, "{text:?}");
        if let Some(device_type) = expected {
            assert_eq!(device_type.as_str(), text);
            let json = serde_json::to_value(device_type).unwrap();
            assert_eq!(json, text.as_str());
        }
    }
}

/// Scope: every string of at most 4 characters over the three letters, one of them
/// in upper case, another letter and a space.
#[test]
fn permissions_are_a_set_of_three_letters() {
    for text in strings("rwmRx ", 4) {
        let valid = text.chars().all(|c| "rwm".contains(c));
        let expected = valid.then(|| Permissions {
            read: text.contains('r'),
            write: text.contains('w'),
            mknod: text.contains('m'),
        });
        assert_eq!(text.parse().ok(), expected, "{text:?}");
        if let Some(permissions) = expected {
            let written = String::from(permissions);
            assert!(["", "r", "w", "m", "rw", "rm", "wm", "rwm"].contains(&written.as_str()));
            assert_eq!(written.parse(), Ok(permissions), "{text:?}");
        }
    }
}
