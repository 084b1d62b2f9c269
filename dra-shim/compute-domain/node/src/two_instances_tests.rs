//! Two plugins on one node, as in an update with surge: each sees the other's changes
//! despite its cache.

use std::time::Duration;

use durable_file::Dir as _;
use node_claims::WriterError;

use crate::test_objects::{
    Disks, at, begin, end, mk_claim, mk_hardware, mk_input, mk_status, prepare, prepare_input,
    write_spec,
};
use crate::{ChannelRequest, DomainState, PrepareError, PrepareInput, Prepared};

/// The CDI device ids of the answer.
fn ids(prepared: &Prepared) -> Vec<&str> {
    let devices = prepared.devices.iter();
    devices
        .flat_map(|device| device.cdi_device_ids.as_deref().unwrap_or_default())
        .map(String::as_str)
        .collect()
}

#[test]
fn a_device_that_the_other_instance_has_released_is_free_at_once() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    prepare(&old, &mk_claim("claim-1")).unwrap();
    assert!(prepare(&new, &mk_claim("claim-2")).is_err());
    old.unprepare("claim-1", at(1)).unwrap();
    prepare(&new, &mk_claim("claim-2")).unwrap();
    assert!(prepare(&old, &mk_claim("claim-3")).is_err(), "and held");
}

#[test]
fn a_claim_that_the_other_instance_has_prepared_is_answered_without_a_write() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    let claim = mk_claim("claim-1");
    let prepared = prepare(&old, &claim).unwrap();
    let writes = disks.checkpoint_writes();
    let major = mk_hardware().major.ok();
    let again = new.already_prepared(&claim, major).unwrap().unwrap();
    assert_eq!(ids(&again.into()), ids(&prepared));
    assert_eq!(disks.checkpoint_writes(), writes);
}

// req: NODE-24
#[test]
fn a_claim_that_the_other_instance_has_unprepared_is_not_answered_from_the_cache() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    let (claim, status, hardware) = (
        mk_claim("claim-1"),
        mk_status("pod-1", "channel-0"),
        mk_hardware(),
    );
    prepare(&new, &claim).unwrap();
    old.unprepare("claim-1", at(1)).unwrap();
    let major = hardware.major.as_ref().ok().copied();
    assert!(new.already_prepared(&claim, major).unwrap().is_none());
    assert_eq!(disks.spec_of(&claim), None, "and its spec is not rewritten");
    let request = ChannelRequest::from_status(&status).unwrap();
    let gone = PrepareInput {
        domain: DomainState::Missing,
        ..mk_input(&claim, &status, &request, &hardware)
    };
    let refused = prepare_input(&new, gone);
    assert!(matches!(refused, Err(PrepareError::DomainNotFound { .. })));
}

#[test]
fn a_decision_from_before_the_other_instance_prepared_the_claim_does_not_count() {
    let disks = Disks::default();
    let (old, new) = (disks.start(), disks.start());
    let (claim, status, hardware) = (
        mk_claim("claim-1"),
        mk_status("pod-1", "channel-0"),
        mk_hardware(),
    );
    let request = ChannelRequest::from_status(&status).unwrap();
    let major = hardware.major.as_ref().ok().copied();
    assert!(old.already_prepared(&claim, major).unwrap().is_none());
    let prepared = prepare(&new, &claim).unwrap();
    // The domain was deleted meanwhile: a prepared claim stays prepared.
    let input = PrepareInput {
        domain: DomainState::Missing,
        ..mk_input(&claim, &status, &request, &hardware)
    };
    let answer = prepare_input(&old, input).unwrap();
    assert_eq!(ids(&answer), ids(&prepared));
}

#[test]
fn a_late_prepare_keeps_the_spec_of_the_newer_one_which_rewrites_it() {
    for lost in [None, Some("of another status")] {
        let disks = Disks::default();
        let (old, new) = (disks.start(), disks.start());
        let (claim, hardware) = (mk_claim("claim-1"), mk_hardware());
        let statuses = ["pod-1", "pod-2"].map(|pod| mk_status(pod, "channel-0"));
        let requests = statuses
            .each_ref()
            .map(|status| ChannelRequest::from_status(status).unwrap());
        let input = |n: usize| mk_input(&claim, &statuses[n], &requests[n], &hardware);
        begin(&old, input(0)).unwrap();
        write_spec(&old, &input(0));
        begin(&new, input(1)).unwrap();
        write_spec(&new, &input(1));

        assert!(matches!(
            end(&old, &input(0)),
            Err(PrepareError::Claim(node_claims::PrepareError::Aborted))
        ));
        assert!(disks.spec_of(&claim).is_some(), "it is the newer one's");

        // Whatever else happens to the file:
        disks.set_spec_of(&claim, lost);
        end(&new, &input(1)).unwrap();
        let spec = disks.spec_of(&claim).unwrap();
        assert!(spec.contains(r#""major":235"#), "{spec}");
    }
}

#[test]
fn a_writer_that_does_not_get_the_other_instances_lock_is_blocked_and_not_unresponsive() {
    let disks = Disks::default();
    let node = disks.start();
    node.probe_writable().unwrap();
    let theirs = disks.checkpoint.lock("pu.lock", Duration::ZERO).unwrap();
    let blocked = node.probe_writable();
    assert!(
        matches!(blocked, Err(WriterError::Blocked(_))),
        "it reports that it did not get the lock: {blocked:?}"
    );
    drop(theirs);
    node.probe_writable().unwrap();
    assert_eq!(disks.checkpoint_writes(), 0);
}
