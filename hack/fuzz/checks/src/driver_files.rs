use imex_cdi::{Capability, ChannelId, DriverParams, DriverTextError};

use crate::error::is_helpful;

/// Checks that a number from the driver's files is the one in its key's line, or an
/// error; never a default, never truncated.
///
/// # Panics
///
/// If that does not hold.
pub fn driver_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match DriverParams::parse(&text) {
        Ok(params) => params_are_written(&text, &params),
        Err(error) => check_error(&text, &error),
    }
    match Capability::parse(&text) {
        Ok(capability) => capability_is_written(&text, &capability),
        Err(error) => check_error(&text, &error),
    }
}

fn params_are_written(text: &str, params: &DriverParams) {
    let DriverParams {
        imex_channel_count,
        create_imex_channel0,
        modify_device_files,
        device_file_mode,
        device_file_uid,
        device_file_gid,
    } = *params;
    assert!(imex_channel_count.is_none_or(|count| count <= ChannelId::LIMIT));
    assert!(device_file_mode.is_none_or(|mode| mode <= 0o7777));
    for (key, number) in [
        ("ImexChannelCount", imex_channel_count),
        ("DeviceFileMode", device_file_mode),
        ("DeviceFileUID", device_file_uid),
        ("DeviceFileGID", device_file_gid),
    ] {
        check_lines(text, key, number.map(|number| move |n| n == number));
    }
    for (key, yes) in [
        ("CreateImexChannel0", create_imex_channel0),
        ("ModifyDeviceFiles", modify_device_files),
    ] {
        check_lines(text, key, yes.map(|yes| move |n| (n == 1) == yes));
    }
}

fn capability_is_written(text: &str, capability: &Capability) {
    let Capability {
        minor,
        mode,
        modify,
    } = *capability;
    assert!(minor < ChannelId::LIMIT && mode <= 0o7777);
    check_lines(text, "DeviceFileMinor", Some(|n| n == minor));
    check_lines(text, "DeviceFileMode", Some(|n| n == mode));
    check_lines(text, "DeviceFileModify", Some(|n| (n == 1) == modify));
}

/// Checks that every line of the key has the expected number; without an expectation,
/// that there is no such line.
fn check_lines(text: &str, key: &str, expected: Option<impl Fn(u32) -> bool>) {
    let values: Vec<&str> = values(text, key).collect();
    match expected {
        None => assert!(values.is_empty(), "{key} was ignored: {values:?}"),
        Some(expected) => {
            assert!(!values.is_empty(), "{key} was invented");
            for value in values {
                let number = value.parse().ok();
                assert!(number.is_some_and(&expected), "{key} is {value:?}");
            }
        }
    }
}

fn values<'a>(text: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn check_error(text: &str, error: &DriverTextError) {
    is_helpful(error, error.code(), error.hint());
    let (DriverTextError::InvalidValue { line, .. } | DriverTextError::Ambiguous { line, .. }) =
        error
    else {
        return;
    };
    let named = line.checked_sub(1).and_then(|at| text.lines().nth(at));
    assert!(
        named.is_some_and(|line| line.contains(':')),
        "line {line} has no value"
    );
}
