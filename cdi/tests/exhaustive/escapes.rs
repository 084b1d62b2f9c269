//! Strings in a spec's JSON.

use imex_cdi::{ContainerEdits, Device, DeviceName, Kind, Spec};

/// Scope: all 1 112 064 characters of Unicode, in strings of 16 consecutive ones.
#[test]
fn every_character_is_read_back_as_json_and_as_yaml() {
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    assert_eq!(all.len(), 1_112_064);
    let strings = all.chunks(16).map(String::from_iter);
    let device = Device {
        name: DeviceName::new("all").unwrap(),
        annotations: [].into(),
        container_edits: ContainerEdits {
            env: strings.map(|text| format!("A={text}")).collect(),
            ..ContainerEdits::default()
        },
    };
    let spec = Spec::new(Kind::compute_domain_claim(), vec![device]).unwrap();
    let json = spec.to_json();
    assert!(!json.iter().any(u8::is_ascii_control));
    let yaml = [b"# YAML\n", json.as_slice()].concat();
    for read in [Spec::from_json(&json).unwrap(), Spec::parse(&yaml).unwrap()] {
        let env = |spec: &Spec| spec.devices()[0].container_edits.env.clone();
        for (written, read) in env(&spec).into_iter().zip(env(&read)) {
            assert_eq!(read, written);
        }
        assert!(read == spec, "something else than the characters differs");
    }
}
