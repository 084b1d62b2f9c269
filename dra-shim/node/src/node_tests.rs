//! Prepare and Unprepare over simulated directories: their states, and every
//! step being the last.

use dra_checkpoint::{BootId, Damage};
use durable_file::{Dir as _, SimDir};
use imex_cdi::{ReadMajorError, channel_major};
use nvml_clique::{ClusterUuid, Fabric, FabricState, Gpu, GpuRef};

use super::*;
use crate::{Class, Started};

const DOMAIN: &str = "c0ffee00-1234-4567-89ab-0123456789ab";

/// The two directories of a node; they outlive processes.
#[derive(Clone, Default)]
struct Disks {
    checkpoint: SimDir,
    cdi: SimDir,
}

impl Disks {
    fn start(&self) -> Node {
        self.try_start("boot-1").unwrap().0
    }

    fn try_start(&self, boot: &str) -> Result<(Node, Started), crate::StartError> {
        let boot = BootId::new(boot).unwrap();
        Node::start(
            Arc::new(self.checkpoint.clone()),
            Arc::new(self.cdi.clone()),
            boot,
            mk_world().channel_major().ok(),
        )
    }

    fn after_kill(&self) -> Self {
        Self {
            checkpoint: self.checkpoint.after_kill(),
            cdi: self.cdi.after_kill(),
        }
    }

    fn has_crashed(&self) -> bool {
        self.checkpoint.has_crashed() || self.cdi.has_crashed()
    }

    fn spec_of(&self, claim: &ClaimName) -> Option<String> {
        let name = format!("k8s.compute-domain.nvidia.com-claim_{}.yaml", claim.uid);
        self.cdi
            .read(&name)
            .unwrap()
            .map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

fn mk_claim(uid: &str) -> ClaimName {
    ClaimName {
        uid: uid.to_owned(),
        name: format!("{uid}-name"),
        namespace: "default".to_owned(),
    }
}

fn mk_status(pod: &str, device: &str) -> ClaimStatus {
    let text = format!(
        r#"{{"allocation":{{"devices":{{
            "results":[{{"request":"channel","driver":"compute-domain.nvidia.com","pool":"node-a","device":"{device}"}}],
            "config":[{{"source":"FromClaim","requests":["channel"],"opaque":{{"driver":"compute-domain.nvidia.com","parameters":
                {{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"{DOMAIN}","allocationMode":"Single"}}}}}}]
        }}}},"reservedFor":[{{"resource":"pods","name":"{pod}","uid":"{pod}"}}]}}"#
    );
    ClaimStatus::from_json(&text).unwrap()
}

fn mk_world_with(major: u32, fabric: Fabric) -> World {
    let list = format!("Character devices:\n{major} nvidia-caps-imex-channels\n");
    let major = channel_major(&list).map_err(|source| ReadMajorError::Content {
        path: "/proc/devices".into(),
        source,
    });
    World {
        fabric,
        library_seen: true,
        major,
    }
}

fn mk_world() -> World {
    let fabric = FabricState::Completed {
        cluster: ClusterUuid([7; 16]),
        clique_id: 0,
    };
    let gpu = Gpu {
        id: GpuRef {
            index: 0,
            uuid: None,
        },
        name: None,
        fabric,
        health: None,
    };
    mk_world_with(235, Fabric::of(&[gpu]))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// As the plugin does it: held, else prepare.
fn prepare_in(
    node: &Node,
    claim: &ClaimName,
    status: &ClaimStatus,
    world: &World,
    now: Timestamp,
) -> Result<Prepared, PrepareError> {
    if let Some(prepared) = node.held(claim, world)? {
        return Ok(prepared);
    }
    let request = ChannelRequest::of(status)?;
    node.prepare(&Attempt {
        claim,
        status,
        request: &request,
        domain_exists: true,
        world,
        now,
    })
}

fn prepare(node: &Node, claim: &ClaimName) -> Result<Prepared, PrepareError> {
    prepare_in(
        node,
        claim,
        &mk_status("pod-1", "channel-0"),
        &mk_world(),
        at(0),
    )
}

#[test]
fn a_prepared_claim_has_its_device_its_cdi_file_and_the_same_answer_every_time() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    for _ in 0..2 {
        let prepared = prepare(&node, &claim).unwrap();
        let [device] = prepared.devices.as_slice() else {
            panic!("one device")
        };
        assert_eq!(device.device_name, "channel-0");
        assert_eq!(
            device.cdi_device_ids.as_deref(),
            Some(&["k8s.compute-domain.nvidia.com/claim=claim-1-channel-0".to_owned()][..])
        );
        assert!(
            disks
                .spec_of(&claim)
                .unwrap()
                .contains(r#""major":235,"minor":0"#)
        );
    }
}

#[test]
fn the_channel_is_the_allocated_one() {
    let disks = Disks::default();
    let claim = mk_claim("claim-1");
    prepare_in(
        &disks.start(),
        &claim,
        &mk_status("pod-1", "channel-5"),
        &mk_world(),
        at(0),
    )
    .unwrap();
    assert!(
        disks
            .spec_of(&claim)
            .unwrap()
            .contains("/dev/nvidia-caps-imex-channels/channel5")
    );
}

#[test]
fn a_lost_cdi_file_is_put_back_even_when_domain_and_fabric_are_gone() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    prepare(&node, &claim).unwrap();
    disks
        .cdi
        .remove("k8s.compute-domain.nvidia.com-claim_claim-1.yaml")
        .unwrap();

    let dark = mk_world_with(300, Fabric::of(&[]));
    node.held(&claim, &dark).unwrap().unwrap();
    assert!(
        disks.spec_of(&claim).unwrap().contains(r#""major":300"#),
        "a reloaded driver's major"
    );
}

#[test]
fn a_second_claim_waits_until_the_first_is_unprepared_and_is_told_who_holds_the_device() {
    let disks = Disks::default();
    let node = disks.start();
    prepare(&node, &mk_claim("claim-1")).unwrap();

    let error = prepare(&node, &mk_claim("claim-2")).unwrap_err();
    assert_eq!(error.class(), Class::Retry);
    assert_eq!(
        error.to_string(),
        "device channel-0 is still held by claim default/claim-1-name:claim-1"
    );
    assert_eq!(disks.spec_of(&mk_claim("claim-2")), None);

    node.unprepare("claim-1", at(1)).unwrap();
    assert_eq!(disks.spec_of(&mk_claim("claim-1")), None);
    prepare(&node, &mk_claim("claim-2")).unwrap();
}

#[test]
fn a_started_claim_blocks_nobody_and_loses_when_it_comes_second() {
    let disks = Disks::default();
    let (first, second) = (disks.start(), disks.start()); // two processes
    let (slow, fast) = (mk_claim("slow"), mk_claim("fast"));
    let status = mk_status("pod-1", "channel-0");
    let request = ChannelRequest::of(&status).unwrap();
    let world = mk_world();
    let attempt = Attempt {
        claim: &slow,
        status: &status,
        request: &request,
        domain_exists: true,
        world: &world,
        now: at(0),
    };
    let uid = ClaimUid::new("slow").unwrap();
    first.begin(&attempt, &uid).unwrap();
    first
        .specs
        .assert(
            &uid,
            &[ClaimDevice::imex_channel(
                request.channel,
                world.channel_major().unwrap(),
            )],
        )
        .unwrap();

    prepare(&second, &fast).unwrap();

    let error = first.complete(&attempt, uid, Vec::new()).unwrap_err();
    assert!(matches!(error, PrepareError::Held { holder, .. } if holder.ends_with(":fast")));
    assert_eq!(disks.spec_of(&slow), None, "the loser takes its file back");
    assert!(disks.spec_of(&fast).is_some());
}

#[test]
fn an_unprepare_in_another_process_defeats_a_prepare_in_the_making() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    let claim = mk_claim("claim-1");
    let status = mk_status("pod-1", "channel-0");
    let request = ChannelRequest::of(&status).unwrap();
    let world = mk_world();
    let attempt = Attempt {
        claim: &claim,
        status: &status,
        request: &request,
        domain_exists: true,
        world: &world,
        now: at(0),
    };
    let uid = ClaimUid::new("claim-1").unwrap();
    old.begin(&attempt, &uid).unwrap();

    new.unprepare("claim-1", at(1)).unwrap();

    old.specs
        .assert(
            &uid,
            &[ClaimDevice::imex_channel(
                request.channel,
                world.channel_major().unwrap(),
            )],
        )
        .unwrap();
    assert!(matches!(
        old.complete(&attempt, uid, Vec::new()),
        Err(PrepareError::Aborted)
    ));
    assert_eq!(disks.spec_of(&claim), None);
    // A late Prepare of the same version waits; a new pod's comes through, and so does the same one later.
    assert!(matches!(
        prepare_in(&old, &claim, &status, &world, at(60)),
        Err(PrepareError::Aborted)
    ));
    prepare_in(
        &old,
        &claim,
        &mk_status("pod-2", "channel-0"),
        &world,
        at(60),
    )
    .unwrap();
    new.unprepare("claim-1", at(61)).unwrap();
    prepare_in(&old, &claim, &status, &world, at(200)).unwrap();
}

#[test]
fn unprepare_of_a_claim_that_nobody_knows_is_success() {
    let disks = Disks::default();
    let node = disks.start();
    for uid in ["claim-1", "", "../../etc/passwd"] {
        node.unprepare(uid, at(0)).unwrap();
    }
    assert_eq!(
        disks.checkpoint.read("checkpoint.json").unwrap(),
        None,
        "and writes nothing"
    );
}

#[test]
fn an_aborted_attempt_is_forgotten_when_its_fence_has_ended() {
    let disks = Disks::default();
    let node = disks.start();
    let (claim, status, world) = (
        mk_claim("claim-1"),
        mk_status("pod-1", "channel-0"),
        mk_world(),
    );
    let request = ChannelRequest::of(&status).unwrap();
    let attempt = Attempt {
        claim: &claim,
        status: &status,
        request: &request,
        domain_exists: true,
        world: &world,
        now: at(0),
    };
    node.begin(&attempt, &ClaimUid::new("claim-1").unwrap())
        .unwrap();
    node.unprepare("claim-1", at(0)).unwrap();

    node.expire(at(89)).unwrap();
    assert_eq!(node.claims(), std::slice::from_ref(&claim));
    node.expire(at(90)).unwrap();
    assert!(node.claims().is_empty());
}

#[test]
fn without_domain_or_clique_nothing_is_written() {
    let disks = Disks::default();
    let node = disks.start();
    let claim = mk_claim("claim-1");
    let status = mk_status("pod-1", "channel-0");
    let request = ChannelRequest::of(&status).unwrap();
    let attempt = |domain_exists, world: &World| {
        let attempt = Attempt {
            claim: &claim,
            status: &status,
            request: &request,
            domain_exists,
            world,
            now: at(0),
        };
        node.prepare(&attempt).unwrap_err()
    };
    let error = attempt(false, &mk_world());
    assert_eq!(error.class(), Class::Permanent);
    assert!(
        error.to_string().contains(DOMAIN) && error.to_string().contains("default"),
        "{error}"
    );
    assert_eq!(
        attempt(true, &mk_world_with(235, Fabric::of(&[]))).class(),
        Class::Retry
    );
    assert_eq!(disks.checkpoint.read("checkpoint.json").unwrap(), None);
    assert!(disks.cdi.list().unwrap().is_empty());
}

/// Runs `scenario` once per step of either directory with a kill after that
/// step, and `then` on what the next process finds.
fn killed_after_every_step(
    prepared_before: bool,
    scenario: impl Fn(&Node),
    then: impl Fn(&Disks),
) -> usize {
    let mut kills = 0;
    for of_cdi in [false, true] {
        for step in 0.. {
            let disks = Disks::default();
            let node = disks.start();
            if prepared_before {
                prepare(&node, &mk_claim("claim-1")).unwrap();
            }
            if of_cdi {
                disks.cdi.crash_after(step);
            } else {
                disks.checkpoint.crash_after(step);
            }
            scenario(&node);
            if !disks.has_crashed() {
                assert!(step > 0, "the scenario takes no step at all");
                break;
            }
            kills += 1;
            then(&disks.after_kill());
        }
    }
    kills
}

fn no_file_without_record(disks: &Disks) {
    let claim = mk_claim("claim-1");
    let record = disks.start().claims().contains(&claim);
    assert!(
        record || disks.spec_of(&claim).is_none(),
        "a CDI file without a record"
    );
}

#[test]
fn prepare_killed_after_any_step_is_resumed_or_undone() {
    let prepare_it = |node: &Node| drop(prepare(node, &mk_claim("claim-1")));
    let kills = killed_after_every_step(false, prepare_it, |disks| {
        no_file_without_record(disks);
        // Resumed:
        let resumed = disks.after_kill();
        prepare(&resumed.start(), &mk_claim("claim-1")).unwrap();
        assert!(resumed.spec_of(&mk_claim("claim-1")).is_some());
        // Undone, after which another claim gets the device:
        let undone = disks.after_kill();
        let node = undone.start();
        node.unprepare("claim-1", at(1)).unwrap();
        assert_eq!(undone.spec_of(&mk_claim("claim-1")), None);
        prepare(&node, &mk_claim("claim-2")).unwrap();
    });
    assert!(
        kills >= 12,
        "{kills} kills: fewer than two commits and a file have steps"
    );
}

#[test]
fn unprepare_killed_after_any_step_is_finished_by_the_next() {
    let unprepare_it = |node: &Node| drop(node.unprepare("claim-1", at(1)));
    killed_after_every_step(true, unprepare_it, |disks| {
        no_file_without_record(disks);
        let node = disks.start();
        node.unprepare("claim-1", at(2)).unwrap();
        assert_eq!(disks.spec_of(&mk_claim("claim-1")), None);
        assert_eq!(node.prepared_channels(), 0);
        prepare(&node, &mk_claim("claim-2")).unwrap();
    });
}

#[test]
fn every_failing_step_of_prepare_is_an_error_that_the_next_attempt_recovers_from() {
    for step in 0.. {
        let disks = Disks::default();
        let node = disks.start();
        disks.checkpoint.fail_step(step, 28 /* ENOSPC */);
        let first = prepare(&node, &mk_claim("claim-1"));
        prepare(&node, &mk_claim("claim-1")).unwrap();
        assert!(disks.spec_of(&mk_claim("claim-1")).is_some());
        match first {
            Ok(_) => return assert!(step >= 8, "only {step} steps"),
            Err(error) => assert_eq!(error.class(), Class::Retry, "{error}"),
        }
    }
}

#[test]
fn start_reports_no_damage_on_a_fresh_node() {
    let (_, started) = Disks::default().try_start("boot-1").unwrap();
    assert_eq!(started.damage, Damage::None);
    assert!(started.removed_files.is_empty() && started.left.is_empty());
}

#[test]
fn after_a_reboot_records_are_undone_and_forgotten() {
    let disks = Disks::default();
    prepare(&disks.start(), &mk_claim("claim-1")).unwrap();
    let (node, started) = disks.try_start("boot-2").unwrap();
    assert_eq!((started.forgotten, node.prepared_channels()), (1, 0));
    assert_eq!(
        disks.spec_of(&mk_claim("claim-1")),
        None,
        "on a disk that survived the reboot, too"
    );
    prepare(&node, &mk_claim("claim-2")).unwrap();
}

#[test]
fn start_removes_files_without_record_and_puts_back_files_of_records() {
    let disks = Disks::default();
    prepare(&disks.start(), &mk_claim("claim-1")).unwrap();
    let of = |uid: &str| format!("k8s.compute-domain.nvidia.com-claim_{uid}.yaml");
    disks.cdi.remove(&of("claim-1")).unwrap();
    disks.cdi.replace(&of("orphan"), b"{}", 0o644).unwrap();
    disks
        .cdi
        .replace(
            "k8s.compute-domain.nvidia.com-device_base.yaml",
            b"{}",
            0o644,
        )
        .unwrap();

    let (_, started) = disks.try_start("boot-1").unwrap();
    assert_eq!(started.removed_files, [of("orphan")]);
    assert!(disks.spec_of(&mk_claim("claim-1")).is_some());
    assert_eq!(
        disks.cdi.list().unwrap().len(),
        2,
        "the base spec is not ours to remove"
    );
}
