//! Starts over simulated directories.

use dra_checkpoint::Damage;
use durable_file::Dir as _;

use crate::prepared_channels;
use crate::test_objects::{Disks, mk_claim, prepare};

#[test]
fn start_reports_no_damage_on_a_fresh_node() {
    let (_, report) = Disks::default().try_start("boot-1").unwrap();
    assert_eq!(report.damage, Damage::None);
    assert!(report.failures.is_empty());
}

// req: NODE-26
#[test]
fn after_a_reboot_records_and_specs_are_removed() {
    let disks = Disks::default();
    prepare(&disks.start(), &mk_claim("claim-1")).unwrap();
    let (node, report) = disks.try_start("boot-2").unwrap();
    assert_eq!(
        (report.removed_records, prepared_channels(&node.view())),
        (1, 0)
    );
    assert_eq!(
        disks.spec_of(&mk_claim("claim-1")),
        None,
        "on a disk that survived the reboot, too"
    );
    prepare(&node, &mk_claim("claim-2")).unwrap();
}

// req: NODE-25
#[test]
fn start_rewrites_missing_specs_of_records_and_keeps_other_files() {
    let disks = Disks::default();
    prepare(&disks.start(), &mk_claim("claim-1")).unwrap();
    let of = |uid: &str| format!("k8s.compute-domain.nvidia.com-claim_{uid}.yaml");
    disks.cdi.remove(&of("claim-1")).unwrap();
    disks
        .cdi
        .replace(
            "k8s.compute-domain.nvidia.com-device_base.yaml",
            b"{}",
            0o644,
        )
        .unwrap();

    let (_, report) = disks.try_start("boot-1").unwrap();
    assert_eq!(report.damage, Damage::None);
    assert!(disks.spec_of(&mk_claim("claim-1")).is_some());
    assert_eq!(disks.cdi.list().unwrap().len(), 2, "the base spec stays");
}
