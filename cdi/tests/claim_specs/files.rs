//! One claim's file.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use durable_file::{Dir, OsDir, SimDir};
use imex_cdi::{
    ClaimDevice, ClaimSpec, ClaimSpecs, Class, ContainerEdits, DeviceName, Kind, Mount, SpecVersion,
};

use crate::{FILE, GO, SPEC, UID, channel, of_devices, read, specs, uid};

fn env(variable: &str) -> ContainerEdits {
    ContainerEdits {
        env: vec![variable.to_owned()],
        ..ContainerEdits::default()
    }
}

// req: CDI-3, CDI-10
#[test]
fn the_file_of_a_claim_is_this_one_to_the_byte() {
    let dir = SimDir::new();
    let ensured = specs(&dir).ensure(&uid(UID), &channel(0, 235)).unwrap();

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
    specs(&dir).ensure(&claim, &channel(0, 235)).unwrap();
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
    specs.ensure(&uid(UID), &channel(0, 235)).unwrap();
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
    let first = specs.ensure(&uid(UID), &channel(0, 235)).unwrap();
    let (_, version) = dir.read_version(FILE).unwrap().unwrap();

    let second = specs.ensure(&uid(UID), &channel(0, 235)).unwrap();

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
        assert!(specs.ensure(&uid(UID), &channel(0, 235)).unwrap().written);
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
    assert!(specs.ensure(&uid(UID), &channel(0, 235)).unwrap().written);
    assert_eq!(dir.mode(FILE), Some(0o644));
    assert!(!specs.ensure(&uid(UID), &channel(0, 235)).unwrap().written);
}

#[test]
fn the_spec_of_a_claim_is_what_is_written_and_has_warnings() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let spec = specs.spec(&uid(UID), &channel(0, 235)).unwrap();
    assert_eq!(spec.to_json(), SPEC.as_bytes());
    assert_eq!(spec.warnings(), []);
    assert_eq!(dir.list().unwrap(), [""; 0]);

    let mut odd = channel(0, 235);
    odd.devices[0].edits.device_nodes[0].path = "dev/relative".to_owned();
    let warnings = specs.spec(&uid(UID), &odd).unwrap().warnings();
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
        let mut spec = channel(0, 235);
        spec.devices[0].edits = env(&format!("A= {odd} "));
        specs.ensure(&uid(UID), &spec).unwrap();
        let text = read(&dir, FILE).unwrap();
        assert!(!text.contains(odd), "{text:?}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let yaml: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for read in [json, yaml] {
            let env = &read["devices"][0]["containerEdits"]["env"][0];
            assert_eq!(*env, spec.devices[0].edits.env[0], "{text:?}");
        }
    }
}

#[test]
fn a_new_major_rewrites_the_file() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    specs.ensure(&uid(UID), &channel(0, 235)).unwrap();
    assert!(specs.ensure(&uid(UID), &channel(0, 511)).unwrap().written);
    assert_eq!(
        read(&dir, FILE).unwrap(),
        SPEC.replace(r#""major":235"#, r#""major":511"#)
    );
}

// req: CDI-1
#[test]
fn the_file_of_a_gpu_claim_has_common_edits_and_those_of_each_device() {
    let dir = SimDir::new();
    let specs = ClaimSpecs::new(Arc::new(dir.clone()), Kind::gpu_claim());
    let gpu = |name: &str| ClaimDevice {
        name: DeviceName::new(name).unwrap(),
        edits: env(&format!("OWN={name}")),
    };
    let spec = ClaimSpec {
        common: env("COMMON=1"),
        devices: vec![gpu("gpu-1"), gpu("gpu-0")],
    };
    let ensured = specs.ensure(&uid("a-b"), &spec).unwrap();

    let ids: Vec<_> = ensured.ids.iter().map(ToString::to_string).collect();
    let kind = "k8s.gpu.nvidia.com/claim";
    assert_eq!(
        ids,
        ["a-b-gpu-1", "a-b-gpu-0"].map(|it| format!("{kind}={it}"))
    );
    assert_eq!(
        read(&dir, "k8s.gpu.nvidia.com-claim_a-b.yaml").as_deref(),
        Some(concat!(
            r#"{"cdiVersion":"0.3.0","kind":"k8s.gpu.nvidia.com/claim","devices":["#,
            r#"{"name":"a-b-gpu-1","containerEdits":{"env":["OWN=gpu-1"]}},"#,
            r#"{"name":"a-b-gpu-0","containerEdits":{"env":["OWN=gpu-0"]}}],"#,
            r#""containerEdits":{"env":["COMMON=1"]}}"#,
        ))
    );
}

// req: CDI-7
#[test]
fn changed_common_edits_rewrite_the_file_and_equal_ones_do_not() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let with = |variable: &str| ClaimSpec {
        common: env(variable),
        ..channel(0, 235)
    };
    assert!(specs.ensure(&uid(UID), &with("A=1")).unwrap().written);
    assert!(!specs.ensure(&uid(UID), &with("A=1")).unwrap().written);
    assert!(specs.ensure(&uid(UID), &with("A=2")).unwrap().written);
    assert!(specs.ensure(&uid(UID), &channel(0, 235)).unwrap().written);
    assert_eq!(read(&dir, FILE).as_deref(), Some(SPEC));
}

// req: CDI-2
#[test]
fn common_edits_raise_the_version_to_what_they_need() {
    let dir = SimDir::new();
    let claim = uid("abcdef00-aaaa-4bbb-8ccc-000000000001");
    let mount = Mount {
        host_path: "/a".to_owned(),
        container_path: "/a".to_owned(),
        fs_type: Some("bind".to_owned()),
        ..Mount::default()
    };
    let spec = ClaimSpec {
        common: ContainerEdits {
            mounts: vec![mount],
            ..ContainerEdits::default()
        },
        ..channel(0, 235)
    };
    let spec = specs(&dir).spec(&claim, &spec).unwrap();
    assert_eq!(spec.version(), SpecVersion::V0_4_0);
}

#[test]
fn a_removed_claim_may_be_removed_again() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    specs.ensure(&uid(UID), &channel(0, 235)).unwrap();
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
    specs.ensure(&claim, &channel(0, 235)).unwrap();
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
fn a_spec_that_no_runtime_would_accept_is_refused_before_anything_is_written() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let with_edits = |edits| {
        let mut spec = channel(0, 235);
        spec.devices[0].edits = edits;
        spec
    };
    let without_devices = ClaimSpec {
        common: env("A=b"),
        devices: Vec::new(),
    };
    let unset_in_common = ClaimSpec {
        common: env("UNSET"),
        ..channel(0, 235)
    };
    for spec in [
        ClaimSpec::default(),
        without_devices,
        with_edits(ContainerEdits::default()),
        with_edits(env("UNSET")),
        of_devices(
            [channel(0, 235), channel(0, 235)]
                .map(|it| it.devices)
                .concat(),
        ),
        unset_in_common,
    ] {
        let error = specs.ensure(&uid(UID), &spec).unwrap_err();
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
    specs.ensure(&uid(UID), &channel(0, 235)).unwrap();

    let path = scratch.path().join(FILE);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), SPEC);
}
