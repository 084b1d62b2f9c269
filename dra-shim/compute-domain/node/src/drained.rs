//! Claims of a node whose IMEX daemon the driver runs: none is left when the daemon is replaced.

use std::sync::Arc;

use compute_domain_api::driver_managed::DaemonPhase;

use crate::imex_daemon::ImexDaemon;
use crate::node_claims::NodeClaims;

// === impl NodeClaims ===

impl NodeClaims {
    /// The claims of a node in the driver-managed mode: they need this daemon, and are asked
    /// of it in the commits of their Prepare. On a node that definitely has no clique, claims
    /// are prepared without a device, and need no daemon.
    #[must_use]
    pub fn with_daemon(mut self, daemon: ImexDaemon) -> Self {
        self.daemon = Some(Arc::new(daemon));
        self
    }

    /// The UID of the daemon's pod, if that is about to be replaced and no claim is prepared on
    /// this node. None is prepared from then on until the daemon says otherwise: both are read
    /// in one commit, as they are where a record becomes Completed. Records that are Started do
    /// not count: they hold nothing, and their pods wait for the next daemon.
    ///
    /// `None` while it is not known which claims are prepared, or what the daemon says. Takes the
    /// checkpoint's lock, and writes nothing.
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
