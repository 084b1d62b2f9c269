//! Which files belong to a claim, and to which one.

use std::collections::BTreeSet;
use std::sync::Arc;

use durable_file::{Dir, SimDir};
use imex_cdi::{ClaimSpecs, Class};

use crate::{EIO, FILE, GO, UID, channel, specs, uid};

// req: CDI-9
#[test]
fn a_sweep_removes_the_files_of_unprepared_claims_and_no_others() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let (live, dead) = (uid(UID), uid("22222222-aaaa-4bbb-8ccc-000000000002"));
    for claim in [&live, &dead] {
        specs.ensure(claim, &channel(0, 235)).unwrap();
    }
    let foreign = [
        // Go's spec for its daemon, and its temporaries.
        "k8s.compute-domain.nvidia.com-device_base.yaml",
        "spec.123456.tmp",
        // NVIDIA's other driver, other vendors, an administrator's copies.
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
        specs.ensure(&uid(UID), &channel(0, 235)).unwrap();
    }
    assert_eq!(ours.sweep(&BTreeSet::new()).unwrap().removed.len(), 1);
    assert!(theirs.exists(&uid(UID)).unwrap());
}

/// The file name is Go's: a claim of both kinds has one file, whatever a sweep
/// looks at.
#[test]
fn kinds_that_differ_only_in_the_position_of_the_slash_share_their_files() {
    let dir = SimDir::new();
    let of = |kind: &str| ClaimSpecs::new(Arc::new(dir.clone()), kind.parse().unwrap());
    let claim = uid(UID);
    of("lamps/ceiling-claim")
        .ensure(&claim, &channel(0, 235))
        .unwrap();
    assert!(of("lamps-ceiling/claim").exists(&claim).unwrap());
}

#[test]
fn a_file_that_cannot_be_removed_does_not_stop_the_others() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    for claim in ["a", "b", "c"] {
        specs.ensure(&uid(claim), &channel(0, 235)).unwrap();
    }
    dir.fail_step(0, EIO);

    let swept = specs.sweep(&BTreeSet::new()).unwrap();

    assert_eq!(swept.removed.len(), 2);
    let [error] = swept.failed.try_into().unwrap();
    assert_eq!(error.class(), Class::Retry);
    assert!(error.to_string().contains("claim_a.yaml"), "{error}");
    assert_eq!(dir.list().unwrap().len(), 1);
}

// === Go's ===

// req: CDI-1
#[test]
fn a_file_of_gos_driver_is_replaced_removed_and_swept_as_our_own() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let by_go = || drop(dir.replace(FILE, GO, 0o600).unwrap());

    by_go();
    assert!(specs.ensure(&uid(UID), &channel(0, 235)).unwrap().written);
    assert_eq!(dir.list().unwrap(), [FILE], "replaced, not written beside");

    by_go();
    specs.remove(&uid(UID)).unwrap();
    assert!(dir.list().unwrap().is_empty());

    by_go();
    assert_eq!(specs.sweep(&BTreeSet::new()).unwrap().removed, [FILE]);
    assert!(dir.list().unwrap().is_empty());
}

// req: CDI-1
#[test]
fn our_device_has_the_name_that_gos_file_gives_it() {
    let dir = SimDir::new();
    let ids = specs(&dir).ensure(&uid(UID), &channel(0, 235)).unwrap().ids;
    let [id] = ids.try_into().unwrap();
    let go = str::from_utf8(GO).unwrap();
    assert!(go.contains(&format!("\nkind: {}\n", id.kind())));
    assert!(go.contains(&format!("    - name: {}\n", id.device())));
}

// req: CDI-9
#[test]
fn temporary_files_of_gos_driver_for_unprepared_claims_are_swept_and_no_others() {
    let dir = SimDir::new();
    let specs = specs(&dir);
    let gpu = str::from_utf8(GO).unwrap().replace("compute-domain", "gpu");
    let base = include_bytes!("../fixtures/k8s.compute-domain.nvidia.com-device_base.yaml");
    let others: [(&str, &[u8]); 4] = [
        ("spec.1.tmp", b""),
        ("spec.2.tmp", &GO[..60]),
        ("spec.3.tmp", gpu.as_bytes()),
        ("spec.4.tmp", base),
    ];
    for (name, text) in others {
        dir.replace(name, text, 0o600).unwrap();
    }
    dir.replace("spec.5.tmp", GO, 0o600).unwrap();

    let live = BTreeSet::from([uid(UID)]);
    assert!(specs.sweep(&live).unwrap().removed.is_empty());

    assert_eq!(
        specs.sweep(&BTreeSet::new()).unwrap().removed,
        ["spec.5.tmp"]
    );
    assert_eq!(dir.list().unwrap(), others.map(|(name, _)| name));
}
