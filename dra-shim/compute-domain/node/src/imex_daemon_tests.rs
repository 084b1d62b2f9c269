use compute_domain_api::{Isolation, Sharing};
use nvml_clique::Fabric;
use tempfile::TempDir;

use super::*;
use crate::test_objects::*;
use crate::{
    Class, DomainState, Hardware, ImexChannels, NodeClaims, PrepareError, PrepareInput, Prepared,
    channel_of, drained,
};
use dra_checkpoint::{ClaimRef, ClaimStatus};
use imex_cdi::ChannelId;
use node_claims::Begun;

const BOOT: &str = "boot-1";
const POD: &str = "daemon-pod";

/// A node in driver-managed mode, with its daemon's directory.
struct DrivenNode {
    claims: NodeClaims,
    disks: Disks,
    dir: TempDir,
}

impl DrivenNode {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disks =
            Disks::default().with_holder_policy(Isolation::Channel, Sharing::Many { slots: 64 });
        let daemon = ImexDaemon::new(dir.path(), BootId::new(BOOT).unwrap());
        let channels = ImexChannels::new(disks.holder_policy).with_daemon(daemon);
        let (claims, _) = disks.start_with(channels, BOOT).unwrap();
        Self { claims, disks, dir }
    }

    fn set_daemon_state(&self, change: impl FnOnce(&mut DaemonState)) {
        let mut state = DaemonState {
            boot_id: BOOT.to_owned(),
            pod_uid: POD.to_owned(),
            clique: clique(),
            index: 0,
            place: None,
            address: "10.0.0.1".to_owned(),
            phase: DaemonPhase::Ready,
            reason: String::new(),
        };
        change(&mut state);
        self.write_daemon_state(&serde_json::to_string(&state).unwrap());
    }

    fn write_daemon_state(&self, text: &str) {
        let scratch = self.dir.path().join("new");
        std::fs::write(&scratch, text).unwrap();
        std::fs::rename(scratch, self.dir.path().join(STATE_FILE)).unwrap();
    }

    fn drains(&self) {
        self.set_daemon_state(|state| {
            state.phase = DaemonPhase::Draining;
            state.reason = "a new image".to_owned();
        });
    }

    fn prepare_on(&self, uid: &str, hardware: &Hardware) -> Result<Prepared, PrepareError> {
        let (claim, status) = (mk_claim(uid), mk_status("pod-1", "channel-0"));
        let request = mk_labelled_request(&status).unwrap();
        prepare_input(
            &self.claims,
            domains_own(&claim, &status, &request, hardware),
        )
    }

    fn prepare(&self, uid: &str) -> Result<Prepared, PrepareError> {
        self.prepare_on(uid, &mk_hardware())
    }

    fn code(&self, uid: &str) -> &'static str {
        self.prepare(uid).unwrap_err().code()
    }
}

fn clique() -> String {
    mk_hardware().fabric.clique().unwrap().to_string()
}

fn no_clique() -> Hardware {
    mk_hardware_with(235, Fabric::from_gpus(&[mk_gpu(0, mk_completed(0))]))
}

/// Input for a domain with channel 5.
fn domains_own<'a>(
    claim: &'a ClaimRef,
    status: &'a ClaimStatus,
    request: &'a crate::ChannelRequest,
    hardware: &'a Hardware,
) -> PrepareInput<'a> {
    PrepareInput {
        domain: DomainState::Assigned(ChannelId::new(5).unwrap()),
        ..mk_input(claim, status, request, hardware)
    }
}

// req: MODE-17
#[test]
fn a_claim_is_prepared_only_while_the_nodes_daemon_is_ready_in_the_nodes_clique() {
    let node = DrivenNode::new();
    let file = node.dir.path().join(STATE_FILE);
    let file = file.to_str().unwrap();
    let refused = |code: &str, parts: &[&str]| {
        let error = node.prepare("a").unwrap_err();
        assert_eq!((error.code(), error.class()), (code, Class::Retry));
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    refused("imex-daemon-missing", &["no IMEX daemon", file]);
    node.write_daemon_state("{");
    refused("imex-daemon-unreadable", &["cannot be read", file]);
    node.set_daemon_state(|state| {
        (state.phase, state.reason) = (DaemonPhase::Starting, "its reason".to_owned());
    });
    refused("imex-daemon-starting", &["its reason"]);
    node.set_daemon_state(|state| {
        (state.phase, state.reason) = (DaemonPhase::DriverTooOld, "550 is old".to_owned());
    });
    refused("imex-daemon-driver-too-old", &["cannot run", "550 is old"]);
    node.drains();
    refused("imex-daemon-draining", &["about to be replaced"]);
    node.set_daemon_state(|state| state.clique = "another.0".to_owned());
    refused("imex-daemon-of-other-clique", &["another.0", &clique()]);
    assert_eq!(node.claims.recorded_claims(), [], "no record was started");

    node.set_daemon_state(|_| {});
    let prepared = node.prepare("a").unwrap();
    assert_eq!(
        prepared.devices[0].cdi_device_ids.as_deref().unwrap(),
        ["k8s.compute-domain.nvidia.com/claim=a-channel-5"]
    );
}

// req: MODE-17
#[test]
fn a_refusal_has_the_daemons_own_reason_and_may_end_by_itself() {
    let node = DrivenNode::new();
    node.set_daemon_state(|state| {
        state.phase = DaemonPhase::Starting;
        state.reason = "nvidia-imex answers INITIALIZING".to_owned();
    });
    let error = node.prepare("a").unwrap_err();
    assert_eq!(error.class(), Class::Retry);
    assert_eq!(
        error.to_string(),
        "the IMEX daemon of this node is not ready: nvidia-imex answers INITIALIZING"
    );
}

// req: MODE-18
#[test]
fn a_ready_state_from_before_the_reboot_is_ignored() {
    let node = DrivenNode::new();
    node.set_daemon_state(|state| state.boot_id = "boot-0".to_owned());
    assert_eq!(node.code("a"), "imex-daemon-of-former-boot");
    assert_eq!(drained(&node.claims), None);
}

// req: MODE-19
#[test]
fn a_claim_that_began_before_its_daemon_drained_is_refused_in_its_last_commit() {
    let node = DrivenNode::new();
    node.set_daemon_state(|_| {});
    let (claim, status) = (mk_claim("a"), mk_status("pod-1", "channel-0"));
    let request = mk_labelled_request(&status).unwrap();
    let hardware = mk_hardware();
    let input = domains_own(&claim, &status, &request, &hardware);
    let prepare = input.for_channels(node.claims.devices());
    let Begun::Started(started) = node.claims.begin(prepare).unwrap() else {
        panic!("the claim is not prepared yet");
    };

    node.drains();
    assert_eq!(
        drained(&node.claims).as_deref(),
        Some(POD),
        "a Started record holds no device"
    );
    node.claims.write_spec(&started).unwrap();
    let refused = node.claims.end(*started);
    assert_eq!(refused.unwrap_err().code(), "imex-daemon-draining");
    assert_eq!(node.disks.spec_of(&claim), None, "no container can have it");
}

// req: MODE-19
#[test]
fn a_prepared_claim_keeps_its_device_and_its_daemon_until_it_is_unprepared() {
    let node = DrivenNode::new();
    node.set_daemon_state(|_| {});
    node.prepare("a").unwrap();
    assert_eq!(drained(&node.claims), None, "it is not draining");
    node.drains();
    assert_eq!(drained(&node.claims), None, "a claim is prepared");
    let again = node.claims.already_prepared(&mk_claim("a"), None);
    assert!(again.unwrap().is_some());

    node.claims.unprepare("a", at(1)).unwrap();
    assert_eq!(drained(&node.claims).as_deref(), Some(POD));
    node.set_daemon_state(|_| {});
    assert_eq!(drained(&node.claims), None, "the mark was withdrawn");
    node.prepare("b").unwrap();
}

// req: MODE-20
#[test]
fn while_the_daemon_reports_a_clique_no_claim_is_prepared_without_a_device() {
    let node = DrivenNode::new();
    for phase in [DaemonPhase::Starting, DaemonPhase::Ready] {
        node.set_daemon_state(|state| state.phase = phase);
        let error = node.prepare_on("a", &no_clique()).unwrap_err();
        assert_eq!(error.code(), "imex-daemon-of-other-clique");
        assert_eq!(error.class(), Class::Retry);
    }
    assert_eq!(node.claims.recorded_claims(), []);

    node.set_daemon_state(|state| state.boot_id = "boot-0".to_owned());
    node.prepare_on("a", &no_clique()).unwrap();
    node.set_daemon_state(|state| state.clique.clear());
    node.prepare_on("b", &no_clique()).unwrap();
}

// req: MODE-20
#[test]
fn a_node_without_a_clique_prepares_claims_without_a_device_as_the_go_driver_does() {
    let node = DrivenNode::new();
    let prepared = node.prepare_on("a", &no_clique()).unwrap();
    assert_eq!(prepared.devices[0].device_name, "channel-0");
    assert_eq!(prepared.devices[0].cdi_device_ids.as_deref(), Some(&[][..]));
    assert!(prepared.without_device.is_some());
    let claim = mk_claim("a");
    assert_eq!(node.disks.spec_of(&claim), None);
    assert_eq!(channel_of(&node.claims.view(), "a"), None);

    // Later, no spec is written or reported missing either.
    assert!(!node.claims.lacks_specs().unwrap());
    let major = mk_hardware().major.ok();
    let repaired = node.claims.repair_specs(&major).unwrap();
    assert_eq!((repaired.written, repaired.failures), (vec![], vec![]));
    let again = node.claims.already_prepared(&claim, None).unwrap().unwrap();
    assert_eq!(again[0].cdi_device_ids.as_deref(), Some(&[][..]));
    drop(node.disks.try_start(BOOT).unwrap());
    assert_eq!(node.disks.spec_of(&claim), None);
    node.claims.unprepare("a", at(1)).unwrap();
    assert_eq!(node.claims.recorded_claims(), []);
}

// req: NODE-9
#[test]
fn in_host_managed_mode_a_node_without_a_clique_refuses_permanently() {
    let disks = Disks::default();
    let node = disks.start();
    let (claim, status) = (mk_claim("a"), mk_status("pod-1", "channel-0"));
    let refused = prepare_in(&node, &claim, &status, &no_clique(), at(0)).unwrap_err();
    assert_eq!(
        (refused.code(), refused.class()),
        ("no-clique", Class::Permanent)
    );
}
