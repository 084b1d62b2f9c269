//! Which files count, and how odd ones are handled.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use imex_cdi::{FileKind, LoadError, MAX_SPEC_LEN, Registry};
use nix::sys::stat::Mode;

use crate::host::{Host, KIND, spec};

/// Loads the host's odd file with a valid one beside it, which must still count.
fn load(host: &Host) -> Registry {
    host.spec("high/zz-good.json", &["good"]);
    let registry = host.load();
    assert_eq!(host.file_of(&registry, "good"), "high/zz-good.json");
    assert_eq!(registry.files().len(), 2);
    registry
}

/// The first file's error.
fn error_of(registry: &Registry) -> &LoadError {
    registry.files()[0].spec.as_ref().unwrap_err()
}

fn kind_of(host: &Host) -> FileKind {
    match error_of(&load(host)) {
        LoadError::NotAFile { kind, .. } => *kind,
        other => panic!("{other:?}"),
    }
}

// req: CDI-13
#[test]
fn only_names_that_end_in_json_or_yaml_count_in_the_order_of_their_bytes() {
    let host = Host::new();
    let count = [
        "Z.json",
        "a.json",
        "a.yaml",
        ".hidden.json",
        ".json",
        "ä.yaml",
    ];
    let not = [
        "b.yml",
        "c.YAML",
        "d.Json",
        "e.json.tmp",
        "f.yaml~",
        "json",
        "g",
    ];
    for (at, name) in count.iter().chain(&not).enumerate() {
        host.spec(&format!("high/{name}"), &[&format!("lamp{at}")]);
    }
    let registry = host.load();
    let read: Vec<String> = registry
        .files()
        .iter()
        .map(|file| host.local(&file.path))
        .collect();
    let expected = [
        ".hidden.json",
        ".json",
        "Z.json",
        "a.json",
        "a.yaml",
        "ä.yaml",
    ];
    assert_eq!(read, expected.map(|name| format!("high/{name}")));
    assert_eq!(registry.devices().count(), count.len());
}

#[test]
fn a_file_name_need_not_be_text() {
    let host = Host::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff.json");
    fs::write(host.path("high").join(name), spec(KIND, &["red"])).unwrap();
    assert_eq!(host.load().devices().count(), 1);
}

// req: CDI-13
#[test]
fn files_in_subdirectories_do_not_count_whatever_the_directory_is_called() {
    let host = Host::new();
    host.spec("high/sub/a.json", &["red"]);
    host.spec("high/sub.json/a.json", &["green"]);
    assert!(host.load().files().is_empty());
}

#[test]
fn a_link_to_a_file_is_followed() {
    let host = Host::new();
    host.spec("elsewhere/spec", &["red"]);
    symlink("../elsewhere/spec", host.path("high/a.json")).unwrap();
    let registry = host.load();
    assert_eq!(host.file_of(&registry, "red"), "high/a.json");
}

#[test]
fn a_link_to_nothing_or_to_a_directory_or_to_itself_is_an_error_of_that_file() {
    let host = Host::new();
    symlink("nowhere", host.path("high/a.json")).unwrap();
    let registry = load(&host);
    let error = error_of(&registry);
    assert_eq!(error.code(), "cdi-spec-unreadable");
    assert!(error.hint().contains("link"), "{}", error.hint());

    let host = Host::new();
    symlink("../low", host.path("high/a.json")).unwrap();
    assert_eq!(kind_of(&host), FileKind::Directory);

    let host = Host::new();
    symlink("a.json", host.path("high/a.json")).unwrap();
    assert!(matches!(error_of(&load(&host)), LoadError::Read { .. }));
}

#[test]
fn a_named_pipe_a_socket_and_a_device_are_errors_and_never_block() {
    let host = Host::new();
    nix::unistd::mkfifo(&host.path("high/a.json"), Mode::S_IRWXU).unwrap();
    assert_eq!(kind_of(&host), FileKind::NamedPipe);
    let registry = host.load();
    let error = error_of(&registry);
    assert!(
        error
            .to_string()
            .ends_with("high/a.json is a named pipe, not a file")
    );

    let host = Host::new();
    let _socket = UnixListener::bind(host.path("high/a.json")).unwrap();
    assert_eq!(kind_of(&host), FileKind::Socket);

    let host = Host::new();
    symlink("/dev/zero", host.path("high/a.json")).unwrap();
    assert_eq!(kind_of(&host), FileKind::CharDevice);
}

#[test]
fn a_file_whose_reading_fails_is_an_error_of_that_file() {
    let host = Host::new();
    // A regular file that cannot be read at its start.
    symlink("/proc/self/mem", host.path("high/a.json")).unwrap();
    assert!(matches!(error_of(&load(&host)), LoadError::Read { .. }));
}

#[test]
fn a_file_may_be_as_long_as_the_limit_and_no_longer() {
    let host = Host::new();
    host.spec("high/a.json", &["red"]);
    let mut text = fs::read(host.path("high/a.json")).unwrap();
    text.resize(usize::try_from(MAX_SPEC_LEN).unwrap(), b' ');
    host.write("high/a.json", &text);
    assert_eq!(host.load().devices().count(), 1);

    text.push(b' ');
    host.write("high/a.json", &text);
    let registry = load(&host);
    let error = error_of(&registry);
    assert_eq!(error.path(), host.path("high/a.json"));
    assert_eq!(error.code(), "cdi-spec-too-long");
    assert!(
        error
            .to_string()
            .ends_with("high/a.json has 1048577 bytes; the limit is 1048576")
    );
}

// req: CDI-19
#[test]
fn a_directory_of_endless_specs_is_read_no_further_than_a_directory_of_small_ones() {
    let host = Host::new();
    host.spec("high/small.json", &["red"]);
    for number in 0..20 {
        // A sparse file, too large for any memory.
        let file = fs::File::create(host.path(&format!("high/{number}.json"))).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let registry = host.load();
    let refused = registry.files().iter();
    let refused = refused.filter(|file| matches!(file.spec, Err(LoadError::TooLong { .. })));
    assert_eq!(refused.count(), 20);
    assert_eq!(registry.devices().count(), 1);
}

// req: CDI-15
#[test]
fn an_invalid_spec_hides_no_other() {
    let no_edits =
        r#"{"cdiVersion":"0.3.0","kind":"a/b","devices":[{"name":"c","containerEdits":{}}]}"#;
    for (text, code) in [
        ("", "cdi-spec-malformed"),
        ("{", "cdi-spec-malformed"),
        (no_edits, "cdi-device-no-edits"),
    ] {
        let host = Host::new();
        host.write("high/a.json", text);
        let registry = load(&host);
        let error = error_of(&registry);
        assert_eq!(error.code(), code, "{text:?}");
        assert!(std::error::Error::source(error).is_some());
    }
}

#[test]
fn an_invalid_files_error_names_the_field_and_its_place() {
    let host = Host::new();
    host.write(
        "high/a.json",
        "{\"cdiVersion\":\"0.3.0\",\"kind\":\"aa/bb\",\"devices\":[{\"name\":\"c\",\n\
         \"containerEdits\":{\"env\":[\"A=b\",\"A\"]}}]}",
    );
    let registry = load(&host);
    let error = error_of(&registry);
    assert_eq!(error.field(), Some("devices[0].containerEdits.env[1]"));
    assert_eq!(error.position().map(|(line, _)| line), Some(2));
    assert_eq!(error.code(), "cdi-edits-invalid");
}

#[test]
fn yaml_is_read_under_either_name() {
    let host = Host::new();
    let yaml = "cdiVersion: 0.3.0\nkind: example.com/lamp\ndevices:\n- name: red\n  \
                containerEdits:\n    env: [A=b]\n";
    host.write("high/a.yaml", yaml);
    host.write("high/b.json", yaml.replace("red", "blue"));
    assert_eq!(host.load().devices().count(), 2);
}
