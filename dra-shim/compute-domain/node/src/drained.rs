//! Draining in driver-managed mode: no claim is prepared when the node's IMEX daemon is replaced.

use std::sync::Arc;

use compute_domain_api::driver_managed::DaemonPhase;

use crate::imex_daemon::ImexDaemon;
use crate::node_claims::NodeClaims;

// === impl NodeClaims ===

impl NodeClaims {
    /// Switches to driver-managed mode: the commits of a Prepare check that this daemon is ready.
    /// On a node that definitely has no clique, claims are prepared without a device and need no
    /// daemon.
    #[must_use]
    pub fn with_daemon(mut self, daemon: ImexDaemon) -> Self {
        self.daemon = Some(Arc::new(daemon));
        self
    }

    /// The UID of the daemon's pod, if the daemon is draining and no claim is prepared on this
    /// node. From then on, no claim is prepared until the daemon leaves that phase: one commit reads
    /// both facts, like the commit in which a record becomes Completed. Started records do not
    /// count: they hold no device, and their pods wait for the next daemon.
    ///
    /// `None` while the prepared claims or the daemon's state are unknown. Takes the checkpoint's
    /// lock, and writes no file.
    // req: MODE-19
    pub fn drained(&self) -> Option<String> {
        let daemon = self.daemon.clone()?;
        let drained = self.store.commit(move |claims| {
            let state = daemon.state().ok();
            let draining = state.filter(|state| state.phase == DaemonPhase::Draining);
            let prepared = claims
                .records()
                .map(|mut records| records.any(|(_, record)| record.is_completed()));
            let drained = draining.filter(|_| matches!(prepared, Ok(false)));
            Ok::<_, std::convert::Infallible>(drained.map(|state| state.pod_uid))
        });
        drained.ok().flatten()
    }
}
