//! No reader accepts a truncated spec, for example after a power loss on a file system that breaks
//! its promises, or after an interrupted copy.

use durable_file::{Dir, SimDir};
use imex_cdi::Spec;
use serde_json::Value;

#[cfg(feature = "inject")]
use crate::GO;
use crate::{FILE, UID, channel, of_devices, read, specs, uid};

/// A YAML loader's answer; `None` for text that no runtime accepts as a spec: invalid YAML, or
/// null, which is YAML for an empty document.
fn yaml(text: &[u8]) -> Option<Value> {
    let value = serde_saphyr::from_slice::<Value>(text).ok();
    value.filter(|value| !value.is_null())
}

fn json(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok()
}

#[cfg(feature = "inject")]
fn as_a_runtime_does(text: &[u8]) -> Option<Spec> {
    Spec::parse(text).ok()
}

/// Without `inject`, no code here reads YAML as a runtime does.
#[cfg(not(feature = "inject"))]
fn as_a_runtime_does(text: &[u8]) -> Option<Spec> {
    Spec::from_json(text).ok()
}

fn written(channels: u32) -> Vec<u8> {
    let dir = SimDir::new();
    let spec = of_devices((0..channels).flat_map(|id| channel(id, 235).devices));
    specs(&dir).ensure(&uid(UID), &spec).unwrap();
    read(&dir, FILE).unwrap().into_bytes()
}

// req: CDI-5
#[test]
fn no_part_of_a_spec_is_a_spec() {
    for channels in [1, 3] {
        let whole = written(channels);
        assert!(yaml(&whole).unwrap().is_object());
        assert_eq!(yaml(&whole), json(&whole));
        assert_eq!(as_a_runtime_does(&whole), Spec::from_json(&whole).ok());
        for end in 0..whole.len() {
            let part = &whole[..end];
            assert_eq!(yaml(part), None, "YAML, {end} bytes");
            assert_eq!(json(part), None, "JSON, {end} bytes");
            assert_eq!(as_a_runtime_does(part), None, "a runtime, {end} bytes");
            assert!(Spec::from_json(part).is_err(), "{end} bytes");
        }
    }
}

/// Why the files are JSON: of block YAML a part often is a spec, and some parts
/// are another channel's.
#[test]
#[cfg(feature = "inject")]
fn parts_of_block_yaml_are_specs() {
    let parts = (0..GO.len()).filter(|end| as_a_runtime_does(&GO[..*end]).is_some());
    assert!(parts.count() > 50);
}

#[test]
fn a_spec_has_no_final_newline_because_its_loss_would_go_unnoticed() {
    assert_eq!(written(1).last(), Some(&b'}'));
    assert!(!written(3).contains(&b'\n'));
}

#[test]
fn a_torn_file_is_replaced() {
    let whole = written(1);
    for end in [0, 1, whole.len() / 2, whole.len() - 1] {
        let dir = SimDir::new();
        dir.replace(FILE, &whole[..end], 0o644).unwrap();
        let ensured = specs(&dir).ensure(&uid(UID), &channel(0, 235)).unwrap();
        assert!(ensured.written);
        assert_eq!(dir.read(FILE).unwrap().as_deref(), Some(&whole[..]));
    }
}
