//! The driver's options and capabilities, in texts like those of `/proc`.

use imex_cdi::{Capability, DeviceType, DriverFileError, DriverParams, DriverTextError};

/// As a driver with IMEX shows them, shortened.
const PARAMS: &str = "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n\
    DeviceFileGID: 44\nDeviceFileMode: 432\nEnableMSI: 1\nImexChannelCount: 2048\n\
    CreateImexChannel0: 0\nRegistryDwords: \"A=1;B: 2\"\nRmMsg: \"\"\n";

const CAPABILITY: &str = "DeviceFileMinor: 4323\nDeviceFileMode: 256\nDeviceFileModify: 1\n";

#[test]
fn the_options_that_concern_channels_are_read() {
    let expected = DriverParams {
        imex_channel_count: Some(2048),
        create_imex_channel0: Some(false),
        modify_device_files: Some(true),
        device_file_mode: Some(0o660),
        device_file_uid: Some(0),
        device_file_gid: Some(44),
    };
    assert_eq!(DriverParams::parse(PARAMS), Ok(expected));
    let crlf = PARAMS.replace('\n', "\r\n");
    assert_eq!(DriverParams::parse(crlf.trim_end()), Ok(expected));
    let spaced = PARAMS.replace(": ", " :\t ");
    assert_eq!(DriverParams::parse(&spaced), Ok(expected));
}

#[test]
fn an_option_that_the_driver_does_not_have_has_no_value() {
    let params = DriverParams::parse("EnableMSI: 1\n").unwrap();
    assert_eq!(params, DriverParams::default());
    let longer = DriverParams::parse("ImexChannelCounts: 1\nxImexChannelCount: 2\n").unwrap();
    assert_eq!(longer.imex_channel_count, None);
}

// req: GPU-11
#[test]
fn device_nodes_of_the_driver_have_its_mode_and_owner_and_others_do_not() {
    let node = |params: DriverParams, path| {
        let node = params.device_node(path, 195, 0);
        assert_eq!(node.path, path);
        assert_eq!(node.device_type, Some(DeviceType::Char));
        assert_eq!((node.major, node.minor), (Some(195), Some(0)));
        assert_eq!((node.host_path, node.permissions), (None, None));
        (node.file_mode.unwrap(), node.uid, node.gid)
    };
    let default = DriverParams::default();
    let params = DriverParams {
        device_file_mode: Some(0o660),
        device_file_uid: Some(0),
        device_file_gid: Some(44),
        ..default
    };
    let owner = |mode| (mode, Some(0), Some(44));
    assert_eq!(node(params, "/dev/nvidia0"), owner(0o660));
    assert_eq!(node(params, "/dev/nvidia-caps/nvidia-cap1"), owner(0o444));
    assert_eq!(node(params, "/dev/dri/card0"), (0o666, None, None));
    assert_eq!(node(default, "/dev/nvidia0"), (0o666, None, None));
    assert_eq!(
        node(default, "/dev/nvidia-caps/nvidia-cap1"),
        (0o444, None, None)
    );
}

#[test]
fn only_1_turns_an_option_on() {
    for (value, on) in [
        ("0", false),
        ("1", true),
        ("2", false),
        ("4294967295", false),
    ] {
        let text = format!("ModifyDeviceFiles: {value}\nCreateImexChannel0: {value}\n");
        let params = DriverParams::parse(&text).unwrap();
        assert_eq!(params.modify_device_files, Some(on), "{value}");
        assert_eq!(params.create_imex_channel0, Some(on), "{value}");
    }
}

// req: CDI-30
#[test]
fn an_invalid_number_is_refused_with_its_line() {
    for found in [
        "",
        "-1",
        "+1",
        "0x10",
        "1048577",
        "2048 ",
        "many",
        "2 048",
        "9999999999999999",
    ] {
        let text = format!("EnableMSI: 1\nImexChannelCount:{found}x\n");
        let error = DriverParams::parse(&text).unwrap_err();
        let DriverTextError::InvalidValue {
            line,
            key,
            found: shown,
            ..
        } = &error
        else {
            panic!("{found:?}: {error}");
        };
        assert_eq!((*line, *key), (2, "ImexChannelCount"));
        assert!(shown.len() <= 16, "{shown:?}");
    }
    let error = DriverParams::parse("ImexChannelCount: 1048577").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 1: ImexChannelCount is \"1048577\", not a decimal number from 0 to 1048576"
    );
}

#[test]
fn a_key_with_two_values_is_refused() {
    let text = "DeviceFileMode: 438\nDeviceFileMode: 384\n";
    let error = DriverParams::parse(text).unwrap_err();
    assert_eq!(
        error,
        DriverTextError::Ambiguous {
            line: 2,
            key: "DeviceFileMode"
        }
    );
    let same = "DeviceFileMode: 438\nDeviceFileMode: 438\n";
    assert_eq!(
        DriverParams::parse(same).unwrap().device_file_mode,
        Some(0o666)
    );
}

#[test]
fn a_text_without_keys_is_not_mistaken_for_a_driver_without_options() {
    for text in ["", "\n\n", "<html>", "235 nvidia-caps-imex-channels\n"] {
        assert_eq!(DriverParams::parse(text), Err(DriverTextError::NoKeys));
        assert_eq!(Capability::parse(text), Err(DriverTextError::NoKeys));
    }
}

#[test]
fn a_capability_is_read() {
    let expected = Capability {
        minor: 4323,
        mode: 0o400,
        modify: true,
    };
    assert_eq!(Capability::parse(CAPABILITY), Ok(expected));
}

// req: CDI-30
#[test]
fn a_capability_with_anything_missing_or_misspelt_is_refused() {
    for key in ["DeviceFileMinor", "DeviceFileMode", "DeviceFileModify"] {
        let without = CAPABILITY.replace(key, "Other");
        assert_eq!(
            Capability::parse(&without),
            Err(DriverTextError::Missing { key })
        );
    }
    for minor in ["", "x", "-1", "1048576"] {
        let text = CAPABILITY.replace("4323", minor);
        let error = Capability::parse(&text).unwrap_err();
        assert!(
            matches!(error, DriverTextError::InvalidValue { line: 1, .. }),
            "{error}"
        );
    }
}

#[test]
fn an_error_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("params");
    let error = DriverParams::read(&path).unwrap_err();
    assert!(matches!(error, DriverFileError::Unreadable { .. }));
    assert!(error.to_string().contains(path.to_str().unwrap()));
    assert!(error.hint().contains("load the nvidia kernel module"));

    let mut bytes = b"RegistryDwords: \"\xff\xfe\"\n".to_vec();
    bytes.extend_from_slice(PARAMS.as_bytes());
    std::fs::write(&path, bytes).unwrap();
    let params = DriverParams::read(&path).unwrap();
    assert_eq!(params.imex_channel_count, Some(2048));

    std::fs::write(&path, "DeviceFileMinor: ?\n").unwrap();
    let error = Capability::read(&path).unwrap_err();
    assert_eq!(error.code(), "driver-file-malformed");
    assert!(error.to_string().contains(path.to_str().unwrap()));

    std::fs::write(&path, CAPABILITY).unwrap();
    assert_eq!(Capability::read(&path).unwrap().minor, 4323);
}

#[test]
fn an_endless_device_is_not_read() {
    let error = DriverParams::read("/dev/zero").unwrap_err();
    assert!(matches!(error, DriverFileError::NotAFile { .. }));
    assert!(error.hint().contains("another file"), "{}", error.hint());
}

proptest::proptest! {
    #[test]
    fn any_text_gives_an_answer(text in "[\\PC\n]{0,300}") {
        let _ = DriverParams::parse(&text);
        let _ = Capability::parse(&text);
    }
}

/// Reading it would block, since the pipe has no writer.
#[test]
fn files_of_the_kernel_and_the_driver_are_not_read_from_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let end = "/pipe is a named pipe, not a file";

    let major = imex_cdi::read_channel_major(&path).unwrap_err();
    assert_eq!(major.code(), "device-list-malformed");
    assert!(major.to_string().ends_with(end), "{major}");
    let params = imex_cdi::DriverParams::read(&path).unwrap_err();
    assert_eq!(params.code(), "driver-file-malformed");
    assert!(params.to_string().ends_with(end), "{params}");
    let capability = imex_cdi::Capability::read(&path).unwrap_err();
    assert_eq!(capability.code(), "driver-file-malformed");
}
