//! Draining in driver-managed mode: no claim is prepared when the node's IMEX daemon is replaced.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::driver_managed::DaemonPhase;

use crate::channels::NodeClaims;

/// How long [`drained`] waits for the checkpoint's lock at most.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// The UID of the daemon's pod, if the daemon is draining and no claim is prepared on this
/// node. From then on, no claim is prepared until the daemon leaves that phase: one commit reads
/// both facts, like the commit in which a record becomes Completed. Started records do not
/// count: they hold no device, and their pods wait for the next daemon.
///
/// `None` while the prepared claims or the daemon's state are unknown. Takes the checkpoint's
/// lock, and writes no file.
// req: MODE-19
pub fn drained(claims: &NodeClaims) -> Option<String> {
    let daemon = Arc::clone(claims.devices().daemon.as_ref()?);
    let drained = claims.read_locked(READ_WITHIN, move |view| {
        let state = daemon.state().ok();
        let draining = state.filter(|state| state.phase == DaemonPhase::Draining);
        let prepared = view
            .records()
            .map(|mut records| records.any(|(_, record)| record.is_completed()));
        let drained = draining.filter(|_| matches!(prepared, Ok(false)));
        drained.map(|state| state.pod_uid)
    });
    drained.ok().flatten()
}
