use imex_cdi::{CHANNEL_DRIVER, Major, MajorError, channel_major};

use crate::error::is_helpful;

/// Checks that the channels' major is a number before the driver's name, as a word,
/// in a text like `/proc/devices`, and that other lines do not change the result.
///
/// # Panics
///
/// If that does not hold.
pub fn device_list(bytes: &[u8]) {
    let list = String::from_utf8_lossy(bytes);
    let found = channel_major(&list);
    match &found {
        Ok(major) => assert!(is_listed(&list, *major), "{major:?} is not in the list"),
        Err(error) => is_helpful(error, error.code(), error.hint()),
    }
    // Block devices are another list, with separate numbers.
    let more = format!("{list}\nBlock devices:\n  7 {CHANNEL_DRIVER}\n");
    assert_eq!(channel_major(&more), found, "a block device counts");
    // A longer name that begins or ends with our driver's name is another driver.
    for other in [
        "nvidia-caps",
        "nvidia-caps-imex-channels2",
        "x-nvidia-caps-imex-channels",
    ] {
        let more = format!("Character devices:\n  9 {other}\n{list}");
        if list.lines().all(|line| line.trim() != "Block devices:") {
            assert_eq!(
                same_line(channel_major(&more)),
                same_line(found_after(&list))
            );
        }
    }
    let crlf = list.replace("\r\n", "\n").replace('\n', "\r\n");
    assert_eq!(
        channel_major(&crlf),
        channel_major(&list.replace("\r\n", "\n"))
    );
}

/// The result for a list that begins with the head line.
fn found_after(list: &str) -> Result<Major, MajorError> {
    channel_major(&format!("Character devices:\n  9 mem\n{list}"))
}

/// Drops the line numbers of errors: they depend on preceding lines.
fn same_line(found: Result<Major, MajorError>) -> Result<Major, &'static str> {
    found.map_err(|error| error.code())
}

fn is_listed(list: &str, major: Major) -> bool {
    list.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next().and_then(|word| word.parse().ok()) == Some(major.get())
            && words.next() == Some(CHANNEL_DRIVER)
            && words.next().is_none()
    })
}
