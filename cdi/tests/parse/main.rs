//! `Spec::parse`: its result, the position of faults, and hostile texts.
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod generate;
mod hostile;
mod positions;
mod real;

use imex_cdi::{ChannelId, Device, DeviceNode, Kind, Major, Spec, SpecVersion, channel_edits};
use proptest::prelude::*;
use serde_json::Value;

use generate::spec;

fn channels(count: u32) -> Spec {
    let device = |id| {
        let channel = ChannelId::new(id).unwrap();
        Device {
            name: channel.device_name(),
            annotations: [].into(),
            container_edits: channel_edits(channel, Major::new(235).unwrap()),
        }
    };
    Spec::new(
        Kind::compute_domain_claim(),
        (0..count).map(device).collect(),
    )
    .unwrap()
}

/// The same JSON, but parsed as YAML.
fn as_yaml(json: &[u8]) -> Vec<u8> {
    [b"# YAML\n", json].concat()
}

#[test]
fn thousands_of_channels_are_read_back_as_json_and_as_yaml() {
    let spec = channels(2048);
    let json = spec.to_json();
    assert_eq!(Spec::parse(&json).unwrap(), spec);
    assert_eq!(Spec::parse(&as_yaml(&json)).unwrap(), spec);
}

#[test]
fn a_list_reserves_no_unused_memory() {
    let edits = r#"{"env":["A="],"deviceNodes":[{"path":"/x"}],"mounts":[{"hostPath":"/x","containerPath":"/x","options":["ro"]}],"hooks":[{"hookName":"prestart","path":"/x","args":["x"],"env":["A="]}],"netDevices":[{"hostInterfaceName":"x","name":"x"}],"additionalGids":[1]}"#;
    let json = format!(
        r#"{{"cdiVersion":"1.1.0","kind":"example.com/x","devices":[{{"name":"x","containerEdits":{edits}}}]}}"#
    );
    for text in [json.as_bytes(), &as_yaml(json.as_bytes())] {
        let spec = Spec::parse(text).unwrap();
        let edits = &spec.devices()[0].container_edits;
        let (mount, hook) = (&edits.mounts[0], &edits.hooks[0]);
        let capacities = [
            edits.env.capacity(),
            edits.device_nodes.capacity(),
            edits.mounts.capacity(),
            edits.hooks.capacity(),
            edits.net_devices.capacity(),
            edits.additional_gids.capacity(),
            mount.options.capacity(),
            hook.args.capacity(),
            hook.env.capacity(),
        ];
        assert_eq!(capacities, [1; 9]);
    }
    // A host can have 100 000s of devices, most with one node.
    let size = size_of::<Device>() + size_of::<DeviceNode>();
    assert!(size <= 320, "{size}");
}

fn count_mappings(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(count_mappings).sum::<usize>(),
        Value::Array(items) => items.iter().map(count_mappings).sum(),
        _ => 0,
    }
}

/// Replaces the mapping after the first `left` ones by the sequence of its values.
fn make_sequence(value: &mut Value, left: &mut usize) -> bool {
    match value {
        Value::Object(fields) if *left == 0 => {
            *value = fields.values().cloned().collect();
            true
        }
        Value::Object(fields) => {
            *left -= 1;
            fields.values_mut().any(|value| make_sequence(value, left))
        }
        Value::Array(items) => items.iter_mut().any(|item| make_sequence(item, left)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn a_spec_reads_back_as_written(spec in spec()) {
        let json = spec.to_json();
        prop_assert_eq!(&Spec::parse(&json).unwrap(), &spec);
        prop_assert_eq!(&Spec::from_json(&json).unwrap(), &spec);
        prop_assert_eq!(&Spec::parse(&as_yaml(&json)).unwrap(), &spec);
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(&Spec::from_json(&pretty).unwrap(), &spec);
        // serde_json escapes nothing here, and YAML cannot read some characters unescaped.
        if !json.windows(2).any(|pair| pair == br"\u") {
            prop_assert_eq!(&Spec::parse(&pretty).unwrap(), &spec);
        }
    }

    #[test]
    fn a_sequence_is_not_read_as_a_mapping(spec in spec(), which in any::<prop::sample::Index>()) {
        let spec: Value = serde_json::from_slice(&spec.to_json()).unwrap();
        let mut odd = spec.clone();
        let mut left = which.index(count_mappings(&spec));
        make_sequence(&mut odd, &mut left);
        let text = odd.to_string();
        prop_assert!(Spec::from_json(text.as_bytes()).is_err(), "{}", text);
        prop_assert!(Spec::parse(text.as_bytes()).is_err(), "{}", text);
        prop_assert!(Spec::parse(&as_yaml(text.as_bytes())).is_err(), "{}", text);
    }

    #[test]
    fn a_spec_cut_short_is_refused(spec in spec(), cut in 0.0..1.0) {
        let json = spec.to_json();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "any cut will do")]
        let len = (json.len() as f64 * cut) as usize;
        prop_assert!(Spec::parse(&json[..len]).is_err());
        prop_assert!(Spec::parse(&as_yaml(&json[..len])).is_err());
    }

    #[test]
    fn a_spec_states_what_its_fields_need_and_no_less(spec in spec()) {
        let highest = spec.needs().map(|(version, _)| version).max();
        prop_assert_eq!(spec.version(), highest.unwrap_or(SpecVersion::V0_3_0));
        prop_assert!(spec.clone().with_version(SpecVersion::V1_1_0).is_ok());
        prop_assert!(spec.with_version(SpecVersion::V0_2_0).is_err());
    }

    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Spec::parse(&bytes);
        let _ = Spec::from_json(&bytes);
    }

    #[test]
    fn any_text_of_yaml_gives_an_answer(text in "[-:,?&*!|>'\"%@`{}\\[\\]#<~ \n\ta-c0-9.]{0,120}") {
        let _ = Spec::parse(text.as_bytes());
    }

    #[test]
    fn a_damaged_spec_gives_an_answer_and_its_warnings(
        spec in spec(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut json = spec.to_json();
        let at = at.index(json.len());
        json[at] = byte;
        for text in [json.clone(), as_yaml(&json)] {
            if let Ok(read) = Spec::parse(&text) {
                let _ = read.warnings();
                prop_assert_eq!(Spec::parse(&read.to_json()).unwrap(), read);
            }
        }
    }
}

// req: CDI-5
#[test]
fn every_strict_prefix_of_what_is_written_is_refused() {
    let json = channels(2).to_json();
    for len in 0..json.len() {
        assert!(Spec::parse(&json[..len]).is_err(), "{len} bytes");
        assert!(Spec::parse(&as_yaml(&json[..len])).is_err(), "{len} bytes");
    }
}
