//! Which of two files wins.

use std::sync::Arc;

use imex_cdi::ResolveError;

use crate::host::{Host, KIND, lamp, spec};

// req: CDI-14
#[test]
fn a_later_directory_wins_device_by_device() {
    let host = Host::new();
    host.spec("low/a.json", &["red", "green"]);
    host.spec("high/z.json", &["green", "blue"]);
    let registry = host.load();
    assert_eq!(host.file_of(&registry, "red"), "low/a.json");
    assert_eq!(host.file_of(&registry, "green"), "high/z.json");
    assert_eq!(host.file_of(&registry, "blue"), "high/z.json");
}

// req: CDI-14
#[test]
fn a_device_in_two_files_of_one_directory_does_not_resolve_and_the_others_do() {
    let host = Host::new();
    host.spec("high/a.json", &["red", "green"]);
    host.spec("high/b.json", &["green", "blue"]);
    let registry = host.load();
    let error = registry.resolve(&lamp("green")).unwrap_err();
    let files = vec![host.path("high/a.json"), host.path("high/b.json")];
    let expected = ResolveError::Conflict {
        name: lamp("green"),
        files,
    };
    assert_eq!(error, expected);
    assert_eq!(error.code(), "cdi-device-conflict");
    assert_eq!(host.file_of(&registry, "red"), "high/a.json");
    assert_eq!(host.file_of(&registry, "blue"), "high/b.json");

    let conflicts: Vec<_> = registry.conflicts().collect();
    let [conflict] = conflicts.as_slice() else {
        panic!("{conflicts:?}");
    };
    assert_eq!(conflict.name, lamp("green"));
    let text = conflict.to_string();
    assert!(text.contains("a.json") && text.contains("b.json"), "{text}");
}

#[test]
fn a_conflict_takes_the_device_from_other_directories_too() {
    for (alone, twice) in [("low", "high"), ("high", "low")] {
        let host = Host::new();
        host.spec(&format!("{alone}/a.json"), &["red"]);
        host.spec(&format!("{twice}/b.json"), &["red"]);
        host.spec(&format!("{twice}/c.json"), &["red"]);
        let registry = host.load();
        let error = registry.resolve(&lamp("red")).unwrap_err();
        let expected = ["b.json", "c.json"].map(|file| host.path(twice).join(file));
        assert!(
            matches!(&error, ResolveError::Conflict { files, .. } if *files == expected),
            "{error:?}"
        );
        assert_eq!(registry.devices().count(), 0);
    }
}

#[test]
fn the_same_device_name_under_two_kinds_is_two_devices() {
    let host = Host::new();
    host.spec("high/a.json", &["red"]);
    host.write("high/b.json", spec("example.com/signal", &["red"]));
    let registry = host.load();
    assert_eq!(registry.devices().count(), 2);
    assert_eq!(registry.conflicts().count(), 0);
}

#[test]
fn a_directory_given_twice_wins_over_itself() {
    let host = Host::new();
    host.spec("high/a.json", &["red"]);
    let dir = host.path("high");
    let registry = imex_cdi::Registry::load(&[&dir, &dir]);
    assert_eq!(registry.files().len(), 2);
    let found = registry.resolve(&lamp("red")).unwrap();
    assert_eq!(found.file.priority, 1);
    assert_eq!(registry.conflicts().count(), 0);
}

#[test]
fn devices_come_in_the_order_of_their_names_and_share_their_spec() {
    let host = Host::new();
    host.spec("high/a.json", &["z", "m"]);
    host.spec("low/b.json", &["n", "0"]);
    let registry = host.load();
    let names: Vec<String> = host.devices(&registry).into_iter().map(|d| d.0).collect();
    assert_eq!(names, ["0", "m", "n", "z"].map(|d| format!("{KIND}={d}")));

    let [z, m] = ["z", "m"].map(|name| registry.resolve(&lamp(name)).unwrap());
    assert!(Arc::ptr_eq(z.spec, m.spec));
    assert_eq!((z.index, m.index), (0, 1));
    assert_eq!(m.device, &m.spec.devices()[1]);
}

#[test]
fn a_name_that_no_file_has_is_unknown() {
    let host = Host::new();
    host.spec("high/a.json", &["red"]);
    let registry = host.load();
    for name in ["aa", "re", "redd", "zz"] {
        let error = registry.resolve(&lamp(name)).unwrap_err();
        assert_eq!(error, ResolveError::Unknown { name: lamp(name) });
    }
}
