//! The files of claims: what is in them, whose they are, and what a crash leaves.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use durable_file::{Dir, OsDir, SimDir};
use imex_cdi::{
    ChannelId, ClaimDevice, ClaimSpecs, ClaimUid, Class, ContainerEdits, Kind, Major, Spec,
};

const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
const FILE: &str = "k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml";

/// The whole file for channel 0 of major 235.
const SPEC: &str = concat!(
    r#"{"cdiVersion":"0.5.0","kind":"k8s.compute-domain.nvidia.com/claim","#,
    r#""devices":[{"name":"11111111-aaaa-4bbb-8ccc-000000000001-channel-0","#,
    r#""containerEdits":{"deviceNodes":["#,
    r#"{"path":"/dev/nvidia-caps-imex-channels/channel0","#,
    r#""type":"c","major":235,"minor":0,"fileMode":438,"permissions":"rw"}]}}]}"#,
);

fn uid(text: &str) -> ClaimUid {
    ClaimUid::new(text).unwrap()
}

fn channel(id: u32, major: u32) -> ClaimDevice {
    ClaimDevice::imex_channel(ChannelId::new(id).unwrap(), Major::new(major).unwrap())
}

fn specs(dir: &(impl Dir + Clone + 'static)) -> ClaimSpecs {
    ClaimSpecs::new(Arc::new(dir.clone()), Kind::compute_domain_claim())
}

fn read(dir: &impl Dir, name: &str) -> Option<String> {
    dir.read(name)
        .unwrap()
        .map(|bytes| String::from_utf8(bytes).unwrap())
}

// === one file ===

#[test]
fn the_file_of_a_claim_is_this_one_to_the_byte() {
    let dir = SimDir::new();
    let asserted = specs(&dir).assert(&uid(UID), &[channel(0, 235)]).unwrap();

    assert!(asserted.written);
    let ids: Vec<_> = asserted.ids.iter().map(ToString::to_string).collect();
    assert_eq!(
        ids,
        ["k8s.compute-domain.nvidia.com/claim=11111111-aaaa-4bbb-8ccc-000000000001-channel-0"]
    );
    assert_eq!(dir.list().unwrap(), [FILE]);
    assert_eq!(read(&dir, FILE).as_deref(), Some(SPEC));
    assert_eq!(dir.mode(FILE), Some(0o644));
}

#[test]
fn a_claim_whose_uid_starts_with_a_letter_needs_only_cdi_0_3_0() {
    let dir = SimDir::new();
    let claim = uid("abcdef00-aaaa-4bbb-8ccc-000000000001");
    specs(&dir).assert(&claim, &[channel(0, 235)]).unwrap();
    let [file] = dir.list().unwrap().try_into().unwrap();
    assert!(
        read(&dir, &file)
            .unwrap()
            .starts_with(r#"{"cdiVersion":"0.3.0""#)
    );
}

#[test]
fn a_file_that_is_right_is_not_written_again() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let first = specs.assert(&uid(UID), &[channel(0, 235)]).unwrap();
    let (_, version) = dir.read_version(FILE).unwrap().unwrap();

    let second = specs.assert(&uid(UID), &[channel(0, 235)]).unwrap();

    assert!(!second.written);
    assert_eq!(second.ids, first.ids);
    assert!(dir.is_current(FILE, &version).unwrap());
}

#[test]
fn a_file_that_is_wrong_is_replaced() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let go = include_bytes!(
        "fixtures/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml"
    );
    for wrong in [&b""[..], &go[..], &SPEC.as_bytes()[..40]] {
        dir.replace(FILE, wrong, 0o600).unwrap();
        assert!(specs.assert(&uid(UID), &[channel(0, 235)]).unwrap().written);
        assert_eq!(read(&dir, FILE).as_deref(), Some(SPEC));
        assert_eq!(dir.mode(FILE), Some(0o644));
    }
}

#[test]
fn a_new_major_rewrites_the_file() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    specs.assert(&uid(UID), &[channel(0, 235)]).unwrap();
    assert!(specs.assert(&uid(UID), &[channel(0, 511)]).unwrap().written);
    assert_eq!(
        read(&dir, FILE).unwrap(),
        SPEC.replace(r#""major":235"#, r#""major":511"#)
    );
}

#[test]
fn a_removed_claim_may_be_removed_again() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    specs.assert(&uid(UID), &[channel(0, 235)]).unwrap();
    specs.remove(&uid(UID)).unwrap();
    assert!(dir.list().unwrap().is_empty());
    specs.remove(&uid(UID)).unwrap();
}

#[test]
fn a_claim_has_a_file_from_its_first_assert_to_its_removal() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let (claim, other) = (uid(UID), uid("11111111-aaaa-4bbb-8ccc-00000000000"));
    assert!(!specs.exists(&claim).unwrap());
    specs.assert(&claim, &[channel(0, 235)]).unwrap();
    assert!(specs.exists(&claim).unwrap());
    assert!(!specs.exists(&other).unwrap());
    specs.remove(&claim).unwrap();
    assert!(!specs.exists(&claim).unwrap());
}

#[test]
fn a_file_counts_as_there_whoever_wrote_it_and_however_little_of_it() {
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
fn what_is_no_file_is_neither_there_nor_absent() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join(FILE)).unwrap();
    let dir = Arc::new(OsDir::open(scratch.path()).unwrap());
    let specs = ClaimSpecs::new(dir, Kind::compute_domain_claim());
    let error = specs.exists(&uid(UID)).unwrap_err();
    assert_eq!(error.code(), "cdi-spec-unreadable");
    assert!(error.to_string().contains(FILE), "{error}");
}

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
        let error = specs.assert(&uid(UID), devices).unwrap_err();
        assert_eq!(error.class(), Class::Permanent);
        assert!(error.to_string().contains(UID));
    }
    assert!(dir.steps().is_empty());
}

#[test]
fn on_a_disk_anyone_may_read_the_file_whatever_the_umask() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Arc::new(OsDir::open(scratch.path()).unwrap());
    let specs = ClaimSpecs::new(dir, Kind::compute_domain_claim());
    specs.assert(&uid(UID), &[channel(0, 235)]).unwrap();

    let path = scratch.path().join(FILE);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), SPEC);
}

#[test]
fn no_part_of_a_spec_is_a_spec() {
    let yaml = |bytes: &[u8]| serde_saphyr::from_slice::<serde_json::Value>(bytes);
    let whole = SPEC.as_bytes();
    assert!(Spec::from_json(whole).is_ok());
    assert!(yaml(whole).unwrap().is_object());
    for end in 0..whole.len() {
        let part = &whole[..end];
        assert!(Spec::from_json(part).is_err(), "JSON, {end} bytes");
        // An empty document is YAML for null, which no runtime takes for a spec.
        let read = yaml(part).ok().filter(|value| !value.is_null());
        assert_eq!(read, None, "YAML, {end} bytes");
    }
}

// === whose files ===

#[test]
fn a_sweep_removes_the_files_of_dead_claims_and_no_others() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let (live, dead) = (uid(UID), uid("22222222-aaaa-4bbb-8ccc-000000000002"));
    for claim in [&live, &dead] {
        specs.assert(claim, &[channel(0, 235)]).unwrap();
    }
    let foreign = [
        // Go's spec for its daemon, and its temporaries.
        "k8s.compute-domain.nvidia.com-device_base.yaml",
        "spec.123456.tmp",
        // NVIDIA's other driver, other vendors, an operator's copies.
        "k8s.gpu.nvidia.com-claim_33333333-aaaa-4bbb-8ccc-000000000003.yaml",
        "k8s.compute-domain.nvidia.com-claim.yaml",
        "k8s.compute-domain.nvidia.com-claims_33333333.yaml",
        "k8s.compute-domain.nvidia.com-claim_33333333.yaml.bak",
        "k8s.compute-domain.nvidia.com-claim_33333333.json",
        "k8s.compute-domain.nvidia.com-claim_.yaml",
        "k8s.compute-domain.nvidia.com-claim_a_b.yaml",
        "old-k8s.compute-domain.nvidia.com-claim_33333333.yaml",
        "nvidia.yaml",
    ];
    for name in foreign {
        dir.replace(name, b"x", 0o644).unwrap();
    }

    let swept = specs.sweep(&BTreeSet::from([live])).unwrap();

    assert_eq!(
        swept.removed,
        ["k8s.compute-domain.nvidia.com-claim_22222222-aaaa-4bbb-8ccc-000000000002.yaml"]
    );
    assert!(swept.failed.is_empty());
    let left: BTreeSet<_> = dir.list().unwrap().into_iter().collect();
    let expected = foreign.into_iter().chain([FILE]).map(str::to_owned);
    assert_eq!(left, expected.collect());
}

#[test]
fn the_sweep_of_one_vendors_kind_leaves_the_claims_of_anothers() {
    let dir = SimDir::new();
    let of = |kind: &str| ClaimSpecs::new(Arc::new(dir.clone()), kind.parse().unwrap());
    let (ours, theirs) = (of("lamps.example/claim"), of("lamps.example.org/claim"));
    for specs in [&ours, &theirs] {
        specs.assert(&uid(UID), &[channel(0, 235)]).unwrap();
    }
    assert_eq!(ours.sweep(&BTreeSet::new()).unwrap().removed.len(), 1);
    assert!(theirs.exists(&uid(UID)).unwrap());
}

/// The file name is Go's: a claim of both kinds has one file, whatever a sweep
/// looks at.
#[test]
fn kinds_that_differ_only_in_where_the_slash_stands_share_their_files() {
    let dir = SimDir::new();
    let of = |kind: &str| ClaimSpecs::new(Arc::new(dir.clone()), kind.parse().unwrap());
    let claim = uid(UID);
    of("lamps/ceiling-claim")
        .assert(&claim, &[channel(0, 235)])
        .unwrap();
    assert!(of("lamps-ceiling/claim").exists(&claim).unwrap());
}

#[test]
fn a_file_that_cannot_be_removed_does_not_keep_the_others() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    for claim in ["a", "b", "c"] {
        specs.assert(&uid(claim), &[channel(0, 235)]).unwrap();
    }
    dir.fail_step(0, EIO);

    let swept = specs.sweep(&BTreeSet::new()).unwrap();

    assert_eq!(swept.removed.len(), 2);
    let [error] = swept.failed.try_into().unwrap();
    assert_eq!(error.class(), Class::Retry);
    assert!(error.to_string().contains("claim_a.yaml"), "{error}");
    assert_eq!(dir.list().unwrap().len(), 1);
}

#[test]
fn what_a_crash_leaves_of_a_write_is_gone_when_the_directory_is_opened_again() {
    let dir = SimDir::new();
    dir.crash_after(2);
    assert!(specs(&dir).assert(&uid(UID), &[channel(0, 235)]).is_err());
    let next = dir.after_kill();
    assert!(next.list().unwrap().is_empty());
    assert!(next.read(FILE).unwrap().is_none());
}

// === crashes ===

/// From Linux's errno.h.
const EIO: i32 = 5;

/// Runs `act` on a fresh directory that `before` filled, once per step that it
/// takes, stopping after that step, and hands each state that a kill or a power
/// loss then leaves to `check`.
fn for_every_crash(
    before: impl Fn(&ClaimSpecs),
    act: impl Fn(&ClaimSpecs),
    check: impl Fn(&SimDir, &str),
) {
    let prepared = || {
        let dir = SimDir::new();
        before(&specs(&dir));
        dir
    };
    let dir = prepared();
    let done = dir.steps().len();
    act(&specs(&dir));
    let steps = dir.steps().len() - done;
    assert!(steps > 0, "nothing to interrupt");
    for n in 0..=steps {
        let dir = prepared();
        dir.crash_after(n);
        act(&specs(&dir));
        check(&dir.after_kill(), &format!("kill after step {n}"));
        check(
            &dir.after_power_loss(),
            &format!("power loss after step {n}"),
        );
    }
}

#[test]
fn a_crash_while_a_spec_is_written_leaves_none_or_all_of_it() {
    for_every_crash(
        |_| (),
        |specs| drop(specs.assert(&uid(UID), &[channel(0, 235)])),
        |dir, when| {
            let left = read(dir, FILE);
            assert!(
                left.as_deref().is_none_or(|l| l == SPEC),
                "{when}: {left:?}"
            );
            specs(dir).assert(&uid(UID), &[channel(0, 235)]).unwrap();
            assert_eq!(read(dir, FILE).as_deref(), Some(SPEC), "{when}");
        },
    );
}

#[test]
fn a_crash_while_a_spec_is_replaced_leaves_the_old_or_the_new_one() {
    let new = SPEC.replace("235", "511");
    for_every_crash(
        |specs| drop(specs.assert(&uid(UID), &[channel(0, 235)]).unwrap()),
        |specs| drop(specs.assert(&uid(UID), &[channel(0, 511)])),
        |dir, when| {
            let left = read(dir, FILE).expect(when);
            assert!(left == SPEC || left == new, "{when}: {left:?}");
        },
    );
}

#[test]
fn a_crash_while_a_spec_is_removed_leaves_all_or_none_of_it() {
    for_every_crash(
        |specs| drop(specs.assert(&uid(UID), &[channel(0, 235)]).unwrap()),
        |specs| drop(specs.remove(&uid(UID))),
        |dir, when| {
            let left = read(dir, FILE);
            assert!(
                left.as_deref().is_none_or(|l| l == SPEC),
                "{when}: {left:?}"
            );
            specs(dir).remove(&uid(UID)).unwrap();
            assert_eq!(read(&dir.after_power_loss(), FILE), None, "{when}");
        },
    );
}

#[test]
fn after_any_failed_step_a_repeated_assert_survives_a_power_loss() {
    let steps = {
        let dir = SimDir::new();
        specs(&dir).assert(&uid(UID), &[channel(0, 235)]).unwrap();
        dir.steps().len()
    };
    for n in 0..steps {
        let dir = SimDir::new();
        dir.fail_step(n, EIO);
        let error = specs(&dir)
            .assert(&uid(UID), &[channel(0, 235)])
            .unwrap_err();
        assert_eq!(error.class(), Class::Retry, "step {n}");

        specs(&dir).assert(&uid(UID), &[channel(0, 235)]).unwrap();
        let left = read(&dir.after_power_loss(), FILE);
        assert_eq!(left.as_deref(), Some(SPEC), "step {n}");
    }
}
