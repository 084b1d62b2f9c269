//! The IMEX channel major in texts like `/proc/devices`.
use std::fmt::Write;

use imex_cdi::{
    CHANNEL_DRIVER, Major, MajorError, ReadMajorError, channel_major, read_channel_major,
};

/// As a node with a driver has it: `nvidia-caps` before the channels' driver.
const NODE: &str = "Character devices:\n  1 mem\n  4 /dev/vc/0\n136 pts\n137 pts\n\
    195 nvidia\n234 nvidia-caps\n235 nvidia-caps-imex-channels\n508 nvidia-uvm\n\n\
    Block devices:\n  8 sd\n259 blkext\n";

fn major(list: &str) -> Result<u32, MajorError> {
    channel_major(list).map(Major::get)
}

// req: CDI-28
#[test]
fn the_major_is_the_one_before_the_exact_name() {
    assert_eq!(major(NODE), Ok(235));
}

// req: CDI-28
#[test]
fn a_longer_or_shorter_name_is_another_device() {
    for name in [
        "nvidia-caps",
        "nvidia-caps-imex-channels2",
        "nvidia-caps-imex-channel",
        "x-nvidia-caps-imex-channels",
        "x nvidia-caps-imex-channels",
        "NVIDIA-CAPS-IMEX-CHANNELS",
    ] {
        let list = format!("Character devices:\n234 {name}\n\nBlock devices:\n");
        assert_eq!(major(&list), Err(MajorError::Missing), "{name:?}");
    }
}

// req: CDI-28
#[test]
fn the_block_section_does_not_count() {
    let list = "Character devices:\n  1 mem\n\nBlock devices:\n235 nvidia-caps-imex-channels\n";
    assert_eq!(major(list), Err(MajorError::Missing));
}

#[test]
fn the_block_section_may_come_first() {
    let list = "Block devices:\n7 nvidia-caps-imex-channels\n\nCharacter devices:\n\
        235 nvidia-caps-imex-channels\n";
    assert_eq!(major(list), Ok(235));
}

#[test]
fn layout_does_not_matter() {
    for list in [
        "Character devices:\n235 nvidia-caps-imex-channels",
        "Character devices:\n235 nvidia-caps-imex-channels\n",
        "Character devices:\r\n  1 mem\r\n235 nvidia-caps-imex-channels\r\n\r\nBlock devices:\r\n",
        "  Character devices:  \n\t235\t  nvidia-caps-imex-channels \n",
        "\n\nCharacter devices:\n\n\n   235 nvidia-caps-imex-channels\n",
        "Character devices:\n235 nvidia-caps-imex-channels\n235 nvidia-caps-imex-channels\n",
    ] {
        assert_eq!(major(list), Ok(235), "{list:?}");
    }
}

// req: CDI-30
#[test]
fn an_invalid_major_is_refused_and_quoted() {
    for found in ["0", "4096", "-1", "+235", "0x1", "99999999999999999999999"] {
        let list = format!("Character devices:\n  1 mem\n{found} nvidia-caps-imex-channels\n");
        let Err(MajorError::BadMajor { line, found: shown }) = major(&list) else {
            panic!("{found:?} was taken for a major");
        };
        assert_eq!(line, 3);
        assert!(found.starts_with(&shown) && shown.len() <= 16);
    }
}

#[test]
fn a_malformed_line_of_another_driver_does_not_matter() {
    let list = "Character devices:\nx y z\n-\nfoo\n\u{fffd} bar\n235 nvidia-caps-imex-channels\n";
    assert_eq!(major(list), Ok(235));
}

#[test]
fn two_majors_are_refused() {
    let list = "Character devices:\n234 nvidia-caps-imex-channels\n235 nvidia-caps-imex-channels\n";
    assert!(matches!(major(list), Err(MajorError::Ambiguous { .. })));
}

#[test]
fn a_text_that_is_not_a_device_list_is_not_mistaken_for_a_missing_driver() {
    for list in [
        "",
        "\n",
        "235 nvidia-caps-imex-channels\n",
        "<html>",
        "Block devices:\n8 sd\n",
    ] {
        assert_eq!(major(list), Err(MajorError::NoCharacterDevices), "{list:?}");
    }
}

#[test]
fn a_missing_driver_says_which_option_brings_it() {
    let error = channel_major("Character devices:\n  1 mem\n").unwrap_err();
    assert!(error.hint().contains("NVreg_ImexChannelCount"));
}

#[test]
fn an_error_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("devices");

    let error = read_channel_major(&path).unwrap_err();
    assert!(matches!(error, ReadMajorError::Unreadable { .. }));
    assert!(error.to_string().contains(path.to_str().unwrap()));

    std::fs::write(&path, NODE).unwrap();
    assert_eq!(read_channel_major(&path).unwrap().get(), 235);

    let mut bytes = b"Character devices:\n 9 \xff\xfe\n".to_vec();
    bytes.extend_from_slice(b"235 nvidia-caps-imex-channels\n");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(read_channel_major(&path).unwrap().get(), 235);

    std::fs::write(&path, "Character devices:\n  1 mem\n").unwrap();
    let error = read_channel_major(&path).unwrap_err();
    assert_eq!(error.code(), "imex-channel-major-missing");
    assert!(error.to_string().contains(path.to_str().unwrap()));
}

#[test]
fn an_endless_device_is_not_read() {
    let error = read_channel_major("/dev/zero").unwrap_err();
    assert!(matches!(error, ReadMajorError::NotAFile { .. }));
    assert!(error.hint().contains("another file"), "{}", error.hint());
}

proptest::proptest! {
    #[test]
    fn any_text_gives_an_answer(list in "[\\PC\n]{0,400}") {
        let _ = channel_major(&list);
        let _ = channel_major(&format!("Character devices:\n{list}"));
    }

    #[test]
    fn the_driver_is_found_among_any_others(
        before in proptest::collection::vec((0u32..6000, "[a-z/-]{1,30}"), 0..20),
        number in 1u32..=4095,
    ) {
        let mut list = String::from("Character devices:\n");
        for (other, name) in before.iter().filter(|(_, name)| name != CHANNEL_DRIVER) {
            writeln!(list, "{other:3} {name}").unwrap();
        }
        writeln!(list, "{number:3} {CHANNEL_DRIVER}\n\nBlock devices:").unwrap();
        proptest::prop_assert_eq!(major(&list), Ok(number));
    }
}
