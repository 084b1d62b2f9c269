//! The example `lamps`: no two claims have a lamp at the same time, also after crashes, and answers do not change.

#[path = "../examples/lamps/lamps.rs"]
mod example;

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_checkpoint::BootId;
use dra_kubelet::{Claim, ClaimError, ClaimRef, ErrorClass, PreparedDevice};
use durable_file::{Dir, SimDir};
use jiff::Timestamp;

use self::example::{LampError, Lamps};

const DRIVER: &str = "lamps.example.com";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// The claim of this name, allocated with lamp-0.
fn mk_claim(name: &str) -> Claim {
    let id = ClaimRef {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    };
    let object = serde_json::json!({
        "metadata": { "uid": id.uid },
        "status": { "allocation": { "devices": { "results": [
            { "request": "light/dim", "driver": DRIVER, "pool": "node-1", "device": "lamp-0" },
        ] } } },
    });
    Claim::parse(&object.to_string(), &id, DRIVER).unwrap()
}

/// The two directories of a node.
#[derive(Clone, Default)]
struct Disk {
    records: SimDir,
    specs: SimDir,
}

impl Disk {
    fn open_in(&self, boot: &str) -> Lamps {
        let (records, specs) = (Arc::new(self.records.clone()), Arc::new(self.specs.clone()));
        Lamps::open(records, specs, BootId::new(boot).unwrap()).unwrap()
    }

    fn open(&self) -> Lamps {
        self.open_in("boot-1")
    }

    /// The claims that have a spec.
    fn with_spec(&self) -> BTreeSet<String> {
        let names = self.specs.list().unwrap().into_iter();
        let uids = names.filter_map(|name| {
            let uid = name.strip_prefix("lamps.example.com-claim_")?;
            Some(uid.strip_suffix(".yaml")?.to_owned())
        });
        uids.collect()
    }
}

fn is_in_use(result: &Result<Vec<PreparedDevice>, LampError>) -> bool {
    matches!(result, Err(LampError::InUse { lamp, .. }) if lamp == "lamp-0")
}

#[test]
fn the_second_claim_of_a_lamp_is_refused_until_the_first_is_unprepared() {
    let disk = Disk::default();
    let lamps = disk.open();
    let (a, b) = (mk_claim("a"), mk_claim("b"));
    let prepared = lamps.prepare(&a, NOW).unwrap();
    let [device] = prepared.as_slice() else {
        panic!("{prepared:?}");
    };
    assert_eq!(
        (&*device.device, &*device.requests),
        ("lamp-0", &["light".to_owned()][..])
    );
    assert_eq!(device.cdi_ids, ["lamps.example.com/claim=uid-a-lamp-0"]);

    let refused = ClaimError::from(lamps.prepare(&b, NOW).unwrap_err());
    assert_eq!(
        (refused.class(), refused.code()),
        (ErrorClass::Retry, "in-use")
    );
    assert_eq!(
        refused.message(),
        "lamp-0 is in use by claim uid-a (delete the pod of one of the two claims)"
    );
    assert_eq!(disk.with_spec(), BTreeSet::from(["uid-a".to_owned()]));

    // Another process, with an empty runtime directory.
    let again = Disk {
        records: disk.records.after_kill(),
        specs: SimDir::new(),
    };
    let lamps = again.open();
    assert_eq!(lamps.prepare(&a, NOW).unwrap(), prepared);
    assert_eq!(again.with_spec(), BTreeSet::from(["uid-a".to_owned()]));
    lamps.unprepare("uid-a", NOW).unwrap();
    lamps.unprepare("uid-a", NOW).unwrap();
    assert!(lamps.prepare(&b, NOW).is_ok());
}

#[test]
fn only_one_of_concurrent_claims_gets_the_lamp() {
    let lamps = Disk::default().open();
    let claims: Vec<_> = ["a", "b", "c", "d"].map(mk_claim).into();
    let results: Vec<_> = std::thread::scope(|scope| {
        let calls = claims
            .iter()
            .map(|claim| scope.spawn(|| lamps.prepare(claim, NOW)));
        let calls: Vec<_> = calls.collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let (refused, given): (Vec<_>, Vec<_>) = results.iter().partition(|it| is_in_use(it));
    assert_eq!((refused.len(), given.len()), (3, 1), "{results:?}");
    assert!(given.iter().all(|it| it.is_ok()), "{given:?}");
}

/// The lamp moves from claim a to claim b, and the process or the machine dies at any time.
#[test]
fn after_a_crash_between_any_two_writes_kubelets_next_calls_reach_the_same_state() {
    let (a, b) = (mk_claim("a"), mk_claim("b"));
    let disk = Disk::default();
    let lamps = disk.open();
    lamps.prepare(&a, NOW).unwrap();
    assert!(is_in_use(&lamps.prepare(&b, NOW)));
    lamps.unprepare("uid-a", NOW).unwrap();
    lamps.prepare(&b, NOW).unwrap();
    let mut states = 0;
    for records in disk.records.crashes() {
        for specs in disk.specs.crashes_with(&records) {
            let what = format!("{records}, {specs}");
            let crashed = Disk {
                records: records.dir.after_kill(),
                specs: specs.dir,
            };
            let lamps = crashed.open();
            assert!(!lamps.is_damaged(), "{what}");
            let (first, second) = (lamps.prepare(&a, NOW), lamps.prepare(&b, NOW));
            let has_a = first.is_ok();
            assert!(has_a != second.is_ok(), "{what}: {first:?} {second:?}");
            let holder = if has_a { "uid-a" } else { "uid-b" };
            assert_eq!(
                crashed.with_spec(),
                BTreeSet::from([holder.to_owned()]),
                "{what}"
            );
            for uid in ["uid-a", "uid-b"] {
                lamps.unprepare(uid, NOW).unwrap();
            }
            assert_eq!(crashed.with_spec(), BTreeSet::new(), "{what}");
            states += 1;
        }
    }
    assert!(states > 50, "{states}");
}

#[test]
fn after_a_reboot_no_claim_is_prepared_and_every_claim_can_be() {
    let disk = Disk::default();
    disk.open().prepare(&mk_claim("a"), NOW).unwrap();
    let lamps = disk.open_in("boot-2");
    assert_eq!(disk.with_spec(), BTreeSet::new());
    assert!(lamps.prepare(&mk_claim("b"), NOW).is_ok());
}

/// An administrator restores a checkpoint from a backup, or removes it.
#[test]
fn with_an_older_checkpoint_no_claim_is_prepared_before_the_rebuild() {
    let (a, b, c) = (mk_claim("a"), mk_claim("b"), mk_claim("c"));
    let disk = Disk::default();
    let lamps = disk.open();
    lamps.prepare(&c, NOW).unwrap();
    let older = disk.records.after_kill();
    lamps.unprepare("uid-c", NOW).unwrap();
    lamps.prepare(&a, NOW).unwrap();
    for records in [older, SimDir::new()] {
        let restored = Disk {
            records,
            specs: disk.specs.after_kill(),
        };
        let lamps = restored.open();
        assert!(lamps.is_damaged());
        assert!(
            lamps.prepare(&b, NOW).is_err(),
            "the owner of the lamp is unknown"
        );
        lamps.rebuild(std::slice::from_ref(&a), NOW).unwrap();
        assert!(!lamps.is_damaged());
        assert!(is_in_use(&lamps.prepare(&b, NOW)));
        assert!(lamps.prepare(&a, NOW).is_ok());
        lamps.unprepare("uid-a", NOW).unwrap();
        assert!(lamps.prepare(&b, NOW).is_ok());
    }
}

#[test]
fn with_a_checkpoint_restored_while_the_driver_runs_no_claim_is_prepared_either() {
    let (a, b, c) = (mk_claim("a"), mk_claim("b"), mk_claim("c"));
    let disk = Disk::default();
    let lamps = disk.open();
    lamps.prepare(&c, NOW).unwrap();
    let older = disk.records.read("checkpoint.json").unwrap().unwrap();
    lamps.unprepare("uid-c", NOW).unwrap();
    let answer = lamps.prepare(&a, NOW).unwrap();

    let records = &disk.records;
    records.replace("checkpoint.json", &older, 0o600).unwrap();
    assert!(lamps.prepare(&b, NOW).is_err());
    assert!(lamps.is_damaged());
    assert!(disk.with_spec().contains("uid-a"));
    lamps.rebuild(std::slice::from_ref(&a), NOW).unwrap();
    assert!(is_in_use(&lamps.prepare(&b, NOW)));
    assert_eq!(lamps.prepare(&a, NOW).unwrap(), answer);
}

/// For example a file of NVIDIA's driver 25.3, which has no boot id.
#[test]
fn with_a_checkpoint_without_a_boot_id_no_spec_is_removed_and_no_claim_prepared() {
    let (a, b, c) = (mk_claim("a"), mk_claim("b"), mk_claim("c"));
    let disk = Disk::default();
    let lamps = disk.open();
    lamps.prepare(&c, NOW).unwrap();
    let older = disk.records.read("checkpoint.json").unwrap().unwrap();
    let v2 = older.windows(6).position(|at| at == b",\"v2\":").unwrap();
    let older = [&older[..v2], b"}"].concat();
    lamps.unprepare("uid-c", NOW).unwrap();
    lamps.prepare(&a, NOW).unwrap();

    let restored = Disk {
        records: SimDir::new(),
        specs: disk.specs.after_kill(),
    };
    let records = &restored.records;
    records.replace("checkpoint.json", &older, 0o600).unwrap();
    let lamps = restored.open();
    assert!(restored.with_spec().contains("uid-a"));
    assert!(lamps.is_damaged() && lamps.prepare(&b, NOW).is_err());
    lamps.rebuild(std::slice::from_ref(&a), NOW).unwrap();
    assert!(is_in_use(&lamps.prepare(&b, NOW)));
}

/// Both have a spec, and the records of both are lost.
#[test]
fn two_claims_with_the_same_lamp_are_not_restored() {
    let (a, b) = (mk_claim("a"), mk_claim("b"));
    let disk = Disk::default();
    disk.open().prepare(&a, NOW).unwrap();
    let other = Disk::default();
    other.open().prepare(&b, NOW).unwrap();
    let spec = "lamps.example.com-claim_uid-b.yaml";
    let bytes = other.specs.read(spec).unwrap().unwrap();
    disk.specs.replace(spec, &bytes, 0o644).unwrap();

    let lamps = Disk {
        records: SimDir::new(),
        specs: disk.specs.clone(),
    }
    .open();
    let both = lamps.rebuild(&[a.clone(), b.clone()], NOW);
    assert!(matches!(both, Err(LampError::InUse { .. })), "{both:?}");
    assert!(lamps.is_damaged());
    assert!(lamps.prepare(&a, NOW).is_err() && lamps.prepare(&b, NOW).is_err());

    // The pod of one is deleted.
    lamps.unprepare("uid-b", NOW).unwrap();
    lamps.rebuild(std::slice::from_ref(&a), NOW).unwrap();
    assert!(lamps.prepare(&a, NOW).is_ok());
    assert!(is_in_use(&lamps.prepare(&b, NOW)));
}
