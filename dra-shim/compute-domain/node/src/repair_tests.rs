//! Repair of externally removed specs, in simulated directories and a real one.

use std::sync::Arc;

use dra_checkpoint::BootId;
use durable_file::{OsDir, SimDir};
use imex_cdi::Major;
use node_claims::RepairReport;

use crate::ImexChannels;
use crate::test_objects::{
    Disks, EXCLUSIVE, at, mk_claim, mk_hardware, mk_hardware_with, mk_status, prepare, prepare_in,
};

fn major() -> Option<Major> {
    mk_hardware().major.ok()
}

// req: NODE-27
#[test]
fn a_removed_spec_is_noticed_and_rewritten_without_a_write_of_the_checkpoint() {
    let disks = Disks::default();
    let node = disks.start();
    assert!(!node.lacks_specs().unwrap());
    prepare(&node, &mk_claim("claim-1")).unwrap();
    prepare_in(
        &node,
        &mk_claim("claim-2"),
        &mk_status("pod", "channel-2"),
        &mk_hardware(),
        at(0),
    )
    .unwrap();
    assert!(!node.lacks_specs().unwrap());
    let writes = disks.checkpoint_writes();

    disks.set_spec_of(&mk_claim("claim-1"), None);
    assert!(node.lacks_specs().unwrap());
    let report = node.repair_specs(&major()).unwrap();
    assert_eq!(report.written, ["claim-1"]);
    assert!(disks.spec_of(&mk_claim("claim-1")).is_some());
    assert!(!node.lacks_specs().unwrap());
    assert_eq!(
        node.repair_specs(&major()).unwrap(),
        RepairReport::default()
    );
    assert_eq!(disks.checkpoint_writes(), writes);
}

// req: NODE-28
#[test]
fn the_specs_of_prepared_claims_follow_the_channel_major() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    prepare(&node, &claim).unwrap();
    let reloaded = mk_hardware_with(300, mk_hardware().fabric).major.ok();
    assert_eq!(node.repair_specs(&reloaded).unwrap().written, ["claim-1"]);
    assert!(disks.spec_of(&claim).unwrap().contains(r#""major":300"#));
    // While it is not loaded, the specs stay.
    assert_eq!(node.repair_specs(&None).unwrap(), RepairReport::default());
    assert!(disks.spec_of(&claim).unwrap().contains(r#""major":300"#));
}

#[test]
fn a_spec_that_cannot_be_written_is_reported_and_stays_missing() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, &mk_claim("claim-1")).unwrap();
    disks.set_spec_of(&mk_claim("claim-1"), None);
    let report = node.repair_specs(&None).unwrap();
    let [failure] = report.failures.as_slice() else {
        panic!("{report:?}")
    };
    assert!(
        failure.starts_with("claim claim-1: this node has no IMEX channels"),
        "{failure}"
    );
    assert!(node.lacks_specs().unwrap(), "it is retried");
}

// req: NODE-27
#[test]
fn a_directory_that_was_removed_or_replaced_is_filled_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cdi");
    let cdi = || OsDir::create(&path, 0o755).unwrap();
    let boot = BootId::new("boot-1").unwrap();
    let checkpoint = Arc::new(SimDir::new());
    let (node, _) = ImexChannels::new(EXCLUSIVE)
        .start(checkpoint, Arc::new(cdi()), boot, major())
        .unwrap();
    prepare(&node, &mk_claim("claim-1")).unwrap();
    for again in 0..2 {
        std::fs::remove_dir_all(&path).unwrap();
        assert!(node.lacks_specs().unwrap());
        if again == 0 {
            // The directory does not exist yet: specs cannot be repaired and are still missing.
            assert!(!node.repair_specs(&major()).unwrap().failures.is_empty());
            assert!(node.lacks_specs().unwrap());
        }
        drop(cdi());
        assert_eq!(node.repair_specs(&major()).unwrap().written, ["claim-1"]);
        let files: Vec<_> = std::fs::read_dir(&path).unwrap().collect();
        assert_eq!(files.len(), 1);
    }
}
