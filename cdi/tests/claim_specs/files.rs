//! One claim's file.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use durable_file::{Dir, OsDir, SimDir};
use imex_cdi::{ClaimDevice, ClaimSpecs, Class, ContainerEdits, Kind};

use crate::{FILE, GO, SPEC, UID, channel, read, specs, uid};

// req: CDI-3, CDI-10
#[test]
fn the_file_of_a_claim_is_this_one_to_the_byte() {
    let dir = SimDir::new();
    let ensured = specs(&dir).ensure(&uid(UID), &[channel(0, 235)]).unwrap();

    assert!(ensured.written);
    let ids: Vec<_> = ensured.ids.iter().map(ToString::to_string).collect();
    assert_eq!(
        ids,
        ["k8s.compute-domain.nvidia.com/claim=11111111-aaaa-4bbb-8ccc-000000000001-channel-0"]
    );
    assert_eq!(dir.list().unwrap(), [FILE]);
    assert_eq!(read(&dir, FILE).as_deref(), Some(SPEC));
    assert_eq!(dir.mode(FILE), Some(0o644));
}

// req: CDI-2
#[test]
fn a_claim_whose_uid_starts_with_a_letter_needs_only_cdi_0_3_0() {
    let dir = SimDir::new();
    let claim = uid("abcdef00-aaaa-4bbb-8ccc-000000000001");
    specs(&dir).ensure(&claim, &[channel(0, 235)]).unwrap();
    let [file] = dir.list().unwrap().try_into().unwrap();
    assert!(
        read(&dir, &file)
            .unwrap()
            .starts_with(r#"{"cdiVersion":"0.3.0""#)
    );
}

#[test]
fn one_listing_finds_the_claims_with_files_and_no_others() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    assert!(specs.claims().unwrap().is_empty());
    specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap();
    for other in ["gpu.yaml", "spec.1.tmp", "k8s.gpu.nvidia.com-claim_a.yaml"] {
        dir.replace(other, b"{}", 0o644).unwrap();
    }
    assert!(specs.claims().unwrap().into_iter().eq([uid(UID)]));
}

// req: CDI-7
#[test]
fn a_file_that_is_right_is_not_written_again() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let first = specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap();
    let (_, version) = dir.read_version(FILE).unwrap().unwrap();

    let second = specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap();

    assert!(!second.written);
    assert_eq!(second.ids, first.ids);
    assert!(dir.is_current(FILE, &version).unwrap());
}

#[test]
fn a_file_that_is_wrong_is_replaced() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    for wrong in [&b""[..], GO, &SPEC.as_bytes()[..40]] {
        dir.replace(FILE, wrong, 0o600).unwrap();
        assert!(specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap().written);
        assert_eq!(read(&dir, FILE).as_deref(), Some(SPEC));
        assert_eq!(dir.mode(FILE), Some(0o644));
    }
}

// req: CDI-6
#[test]
fn a_file_of_the_right_bytes_that_not_all_may_read_is_replaced() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    dir.replace(FILE, SPEC.as_bytes(), 0o600).unwrap();
    assert!(specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap().written);
    assert_eq!(dir.mode(FILE), Some(0o644));
    assert!(!specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap().written);
}

#[test]
fn the_spec_of_a_claim_is_what_is_written_and_has_warnings() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let spec = specs.spec(&uid(UID), &[channel(0, 235)]).unwrap();
    assert_eq!(spec.to_json(), SPEC.as_bytes());
    assert_eq!(spec.warnings(), []);
    assert_eq!(dir.list().unwrap(), [""; 0]);

    let mut odd = channel(0, 235);
    odd.edits.device_nodes[0].path = "dev/relative".to_owned();
    let warnings = specs.spec(&uid(UID), &[odd]).unwrap().warnings();
    assert_eq!(warnings[0].code(), "relative-path");
}

/// As in the file of a driver that passes its input on.
#[test]
fn what_is_written_is_read_whatever_characters_it_has() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    for odd in [
        "\0", "\u{7f}", "\u{85}", "\u{9f}", "\u{2028}", "\u{feff}", "\u{fffe}", "\u{ffff}",
    ] {
        let device = ClaimDevice {
            name: channel(0, 235).name,
            edits: ContainerEdits {
                env: vec![format!("A= {odd} ")],
                ..ContainerEdits::default()
            },
        };
        specs
            .ensure(&uid(UID), std::slice::from_ref(&device))
            .unwrap();
        let text = read(&dir, FILE).unwrap();
        assert!(!text.contains(odd), "{text:?}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let yaml: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for read in [json, yaml] {
            let env = &read["devices"][0]["containerEdits"]["env"][0];
            assert_eq!(*env, device.edits.env[0], "{text:?}");
        }
    }
}

#[test]
fn a_new_major_rewrites_the_file() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap();
    assert!(specs.ensure(&uid(UID), &[channel(0, 511)]).unwrap().written);
    assert_eq!(
        read(&dir, FILE).unwrap(),
        SPEC.replace(r#""major":235"#, r#""major":511"#)
    );
}

#[test]
fn a_removed_claim_may_be_removed_again() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap();
    specs.remove(&uid(UID)).unwrap();
    assert!(dir.list().unwrap().is_empty());
    specs.remove(&uid(UID)).unwrap();
}

#[test]
fn a_claim_has_a_file_from_its_first_ensure_to_its_removal() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let (claim, other) = (uid(UID), uid("11111111-aaaa-4bbb-8ccc-00000000000"));
    assert!(!specs.exists(&claim).unwrap());
    specs.ensure(&claim, &[channel(0, 235)]).unwrap();
    assert!(specs.exists(&claim).unwrap());
    assert!(!specs.exists(&other).unwrap());
    specs.remove(&claim).unwrap();
    assert!(!specs.exists(&claim).unwrap());
}

#[test]
fn a_file_exists_whoever_wrote_it_and_whatever_its_length() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    for content in [
        &b""[..],
        b"---\ncdiVersion: 0.5.0\n",
        &SPEC.as_bytes()[..40],
    ] {
        dir.replace(FILE, content, 0o600).unwrap();
        assert!(specs.exists(&uid(UID)).unwrap(), "{content:?}");
    }
}

#[test]
fn a_non_file_is_neither_present_nor_absent() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join(FILE)).unwrap();
    let dir = Arc::new(OsDir::open(scratch.path()).unwrap());
    let specs = ClaimSpecs::new(dir, Kind::compute_domain_claim());
    let error = specs.exists(&uid(UID)).unwrap_err();
    assert_eq!(error.code(), "cdi-spec-unreadable");
    assert!(error.to_string().contains(FILE), "{error}");
}

// req: CDI-8
#[test]
fn devices_that_no_runtime_would_accept_are_refused_before_anything_is_written() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let bare = ClaimDevice {
        edits: ContainerEdits::default(),
        ..channel(0, 235)
    };
    let mut unset = channel(0, 235);
    unset.edits.env.push("UNSET".to_owned());
    let twice = [channel(0, 235), channel(0, 235)];
    for devices in [&[][..], &[bare], &[unset], &twice] {
        let error = specs.ensure(&uid(UID), devices).unwrap_err();
        assert_eq!(error.class(), Class::Permanent);
        assert!(error.to_string().contains(UID));
    }
    assert!(dir.steps().is_empty());
}

// req: CDI-6
#[test]
fn on_a_disk_anyone_may_read_the_file_whatever_the_umask() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Arc::new(OsDir::open(scratch.path()).unwrap());
    let specs = ClaimSpecs::new(dir, Kind::compute_domain_claim());
    specs.ensure(&uid(UID), &[channel(0, 235)]).unwrap();

    let path = scratch.path().join(FILE);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), SPEC);
}
