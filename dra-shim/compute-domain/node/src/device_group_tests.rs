use dra_checkpoint::{Checkpoint, DamageReason, Damaged, Payload, Survivors};

use super::DeviceGroup;

const FIXTURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../checkpoint/tests/fixtures"
);

fn read(name: &str) -> Vec<u8> {
    std::fs::read(format!("{FIXTURES}/{name}")).unwrap()
}

fn devices(checkpoint: &Checkpoint<DeviceGroup>) -> Vec<String> {
    let records = checkpoint.claims();
    let groups = records.flat_map(|(_, record)| record.devices());
    let devices = groups.flat_map(DeviceGroup::kubelet_devices);
    devices.map(|device| device.device_name.clone()).collect()
}

#[test]
fn go_records_of_channels_and_daemons_keep_their_bytes() {
    for (name, expected) in [
        ("02-channel-completed.json", "channel-0"),
        ("05-daemon-completed.json", "daemon-0"),
        ("08-channel-completed-no-clique.json", "channel-0"),
    ] {
        let bytes = read(name);
        let checkpoint = Checkpoint::<DeviceGroup>::decode(&bytes).unwrap();
        assert_eq!(devices(&checkpoint), [expected], "{name}");
        assert!(checkpoint.encode().unwrap() == bytes, "{name}");
    }
}

#[test]
fn records_of_the_first_release_candidate_are_read() {
    let bytes = read("12-legacy-25.3.0-rc.2.json");
    let checkpoint = Checkpoint::<DeviceGroup>::decode(&bytes).unwrap();
    assert_eq!(devices(&checkpoint), ["channel-0"]);
}

const CHANNEL: &str = "02-channel-completed.json";

/// The channel's file with one text of V2 replaced and the new checksum: FNV-1a
/// over the bytes as Go prints them.
fn resealed(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(read(CHANNEL)).unwrap();
    let (head, v2) = text.split_once(r#""v2":{"checksum":392506270,"#).unwrap();
    let v2 = v2.replacen(from, to, 1);
    let zeroed = format!(r#"{{"checksum":0,{}"#, v2.strip_suffix('}').unwrap());
    let numbers: Vec<String> = zeroed.bytes().map(|byte| byte.to_string()).collect();
    let printed = format!("([]uint8)[{}]", numbers.join(" "));
    let checksum = printed.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!(r#"{head}"v2":{{"checksum":{checksum},{v2}"#).into_bytes()
}

#[test]
fn a_field_that_go_matches_case_insensitively_is_damage_and_not_a_free_channel() {
    for (from, to) in [
        (r#""channel":{"#, r#""Channel":{"#),
        (r#""channel":{"#, r#""\u0043hannel":{"#),
        (r#""channel":{"#, r#""channel":null,"Channel":{"#),
        (r#""channel":{"#, r#""channel":null,"channel":{"#),
        (
            r#""daemon":null"#,
            r#""Daemon":{"info":{"id":0}},"daemon":null"#,
        ),
        (r#""devices":["#, r#""devices":[],"Devices":["#),
        (r#""info":{"#, r#""Info":{"id":1},"info":{"#),
        (r#""id":0"#, r#""id":1,"ID":0"#),
        (r#""device":{"#, r#""device":null,"DEVICE":{"#),
        (r#""CDIDeviceIDs""#, r#""cdiDeviceIds""#),
        (r#""CDIDeviceIDs""#, r#""CDIDeviceIds""#),
        (r#""Requests""#, "\"Reque\u{17f}ts\""),
        (r#""ComputeDomain""#, r#""computeDomain""#),
    ] {
        let damaged = Checkpoint::<DeviceGroup>::decode(&resealed(from, to)).unwrap_err();
        let Damaged {
            reason,
            detail,
            survivors,
            saved,
            ..
        } = damaged;
        assert_eq!((reason, survivors), (DamageReason::Layout, Survivors::Some));
        let detail = detail.unwrap();
        assert!(detail.starts_with("invalid record of claim 11111111-"));
        assert!(detail.contains(": preparedDevices: "), "{to}: {detail}");
        assert_eq!(devices(&saved), ["channel-0"], "{to}: from V1");
    }
}

#[test]
fn a_field_of_a_newer_go_driver_is_preserved() {
    for (from, to) in [
        (r#""channel":{"#, r#""partition":{"Channel":1},"channel":{"#),
        (r#""PoolName""#, r#""Pool_Name":[],"PoolName""#),
        (r#""Type""#, r#""Kind":"x","Type""#),
    ] {
        let bytes = resealed(from, to);
        let checkpoint = Checkpoint::<DeviceGroup>::decode(&bytes).unwrap();
        assert_eq!(devices(&checkpoint), ["channel-0"], "{to}");
        // V1 is written from V2, and V2 is unchanged.
        let v2 = |text: &[u8]| {
            let text = String::from_utf8(text.to_vec()).unwrap();
            text.split_once(r#""v2":"#).unwrap().1.to_owned()
        };
        assert_eq!(v2(&checkpoint.encode().unwrap()), v2(&bytes));
    }
}

#[test]
fn fields_of_the_first_release_candidate_are_matched_as_in_go() {
    let group = |name: &str| {
        let device = format!(r#"{{"{name}":"channel-0"}}"#);
        let slot = format!(r#"{{"channel":{{"info":{{"id":0}},"device":{device}}}}}"#);
        let config = r#"{"Type":"channel","ComputeDomain":"c"}"#;
        DeviceGroup::from_legacy(&format!(r#"{{"devices":[{slot}],"configState":{config}}}"#))
    };
    assert!(group("device_name").is_ok());
    assert!(group("new").is_ok());
    let error = group("Device_Name").unwrap_err().to_string();
    assert!(
        error.contains(r#"Go reads "Device_Name" as "device_name""#),
        "{error}"
    );
}
