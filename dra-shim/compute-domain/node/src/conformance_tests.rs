//! Checks that `NodeClaims` changes the checkpoint and the CDI directory according to
//! the tables of `lifecycle`: runs every transaction from every state.

use dra_checkpoint::lifecycle::Phase;
use dra_checkpoint::{Checkpoint, ClaimStatus};
use durable_file::Dir as _;
use imex_cdi::ClaimUid;
use node_claims::{AllocatedClaim, Moment};

use crate::test_objects::{self, Disks, at, mk_claim, mk_hardware, mk_input, mk_status, prepare};
use crate::{ChannelRequest, DeviceGroup, NodeClaims, PrepareInput};
use node_claims::lifecycle::{ClaimState, Transaction};

const CLAIM: &str = "claim-1";

/// A moment after the fence of a record aborted at 0 has expired.
fn later() -> Moment {
    at(100)
}

fn uid() -> ClaimUid {
    ClaimUid::new(CLAIM).unwrap()
}

/// Calls `then` with the input of a Prepare for this claim status.
fn with_input<T>(status: &ClaimStatus, then: impl FnOnce(PrepareInput<'_>) -> T) -> T {
    let claim = mk_claim(CLAIM);
    let (request, hardware) = (ChannelRequest::from_status(status).unwrap(), mk_hardware());
    then(mk_input(&claim, status, &request, &hardware))
}

fn status() -> ClaimStatus {
    mk_status("pod-1", "channel-0")
}

fn write_spec(claims: &NodeClaims) {
    with_input(&status(), |input| test_objects::write_spec(claims, &input));
}

fn begin(claims: &NodeClaims, now: Moment) {
    with_input(&status(), |input| {
        test_objects::begin(claims, PrepareInput { now, ..input }).unwrap();
    });
}

fn end(claims: &NodeClaims, status: &ClaimStatus) {
    let ended = with_input(status, |input| test_objects::end(claims, &input));
    assert_eq!(
        ended.is_ok(),
        claims.view().phase(CLAIM) == Phase::Completed
    );
}

/// Another claim takes the device while this one is being prepared.
fn end_refused(claims: &NodeClaims) {
    let holds = claims.view().phase(CLAIM) == Phase::Completed;
    let other = prepare(claims, &mk_claim("claim-2"));
    assert_eq!(other.is_err(), holds);
    end(claims, &status());
}

/// A node on which the claim is in `state`.
fn mk_node(state: ClaimState) -> (Disks, NodeClaims) {
    let disks = Disks::default();
    let claims = disks.start();
    match state.record {
        // Not any more: a spec without any checkpoint would be damage.
        Phase::Absent => {
            prepare(&claims, &mk_claim(CLAIM)).unwrap();
            claims.unprepare(CLAIM, at(0)).unwrap();
        }
        Phase::Started => begin(&claims, at(0)),
        Phase::Completed => drop(prepare(&claims, &mk_claim(CLAIM)).unwrap()),
        Phase::Aborted => {
            begin(&claims, at(0));
            claims.unprepare(CLAIM, at(0)).unwrap();
        }
    }
    if state.has_spec {
        write_spec(&claims);
    } else {
        disks.specs().remove(&uid()).unwrap();
    }
    assert_eq!(found(&disks, &claims), state);
    (disks, claims)
}

fn found(disks: &Disks, claims: &NodeClaims) -> ClaimState {
    ClaimState {
        record: claims.view().phase(CLAIM),
        has_spec: disks.spec_of(&mk_claim(CLAIM)).is_some(),
    }
}

/// The claim's phase in the file.
fn recorded(disks: &Disks) -> Phase {
    let Some(bytes) = disks.checkpoint.read("checkpoint.json").unwrap() else {
        return Phase::Absent;
    };
    let checkpoint = Checkpoint::<DeviceGroup>::decode(&bytes).unwrap();
    let mut records = checkpoint.claims();
    let record = records.find(|(uid, _)| *uid == CLAIM);
    record.map_or(Phase::Absent, |(_, record)| record.state.phase())
}

/// Damages the part of the checkpoint that holds no record.
fn damage(disks: &Disks) {
    let bytes = disks.checkpoint.read("checkpoint.json").unwrap();
    let text = bytes.map(|bytes| String::from_utf8(bytes).unwrap());
    let damaged = match text {
        Some(text) => text.replacen("\"checksum\":", "\"checksum\":1", 1),
        None => "{".to_owned(),
    };
    let bytes = damaged.as_bytes();
    disks
        .checkpoint
        .replace("checkpoint.json", bytes, 0o600)
        .unwrap();
}

fn rebuild(disks: &Disks, is_allocated: bool) -> NodeClaims {
    damage(disks);
    let major = mk_hardware().major.ok();
    let (claims, _) = disks.try_start("boot-1").unwrap();
    let allocated = AllocatedClaim {
        claim: mk_claim(CLAIM),
        status: mk_status("pod-1", "channel-0"),
    };
    let allocated = is_allocated.then_some(allocated).into_iter().collect();
    claims.rebuild(allocated, &major).unwrap();
    claims
}

fn run(transaction: Transaction, disks: &Disks, claims: NodeClaims) -> NodeClaims {
    match transaction {
        Transaction::BeginPrepare => {
            begin(&claims, later());
            if claims.view().phase(CLAIM) == Phase::Started {
                write_spec(&claims);
            }
        }
        Transaction::EndPrepare => end(&claims, &status()),
        Transaction::EndPrepareRefused => end_refused(&claims),
        Transaction::EndPrepareSuperseded => end(&claims, &mk_status("pod-2", "channel-0")),
        Transaction::Unprepare => claims.unprepare(CLAIM, later()).unwrap(),
        Transaction::Start => return disks.try_start("boot-1").unwrap().0,
        Transaction::StartAfterReboot => return disks.try_start("boot-2").unwrap().0,
        Transaction::Repair => drop(claims.repair_specs(&mk_hardware().major.ok()).unwrap()),
        Transaction::Rebuild => return rebuild(disks, true),
        Transaction::RebuildWithout => return rebuild(disks, false),
        Transaction::Expire => claims.expire(later()).unwrap(),
    }
    claims
}

fn expected(state: ClaimState, transaction: Transaction) -> ClaimState {
    let steps = state.steps(transaction).iter();
    let state = steps.copied().try_fold(state, ClaimState::next).unwrap();
    match transaction {
        // Records without a spec get it.
        Transaction::Rebuild | Transaction::RebuildWithout => expected(state, Transaction::Start),
        _ => state,
    }
}

#[test]
fn every_transaction_from_every_state_leaves_the_state_that_the_table_gives() {
    for state in ClaimState::ALL {
        for transaction in Transaction::ALL {
            let (disks, claims) = mk_node(state);
            let claims = run(transaction, &disks, claims);
            let cause = (state.name(), transaction.name());
            assert_eq!(
                found(&disks, &claims),
                expected(state, transaction),
                "{cause:?}"
            );
            let recorded = recorded(&disks);
            assert_eq!(recorded, expected(state, transaction).record, "{cause:?}");
        }
    }
}
