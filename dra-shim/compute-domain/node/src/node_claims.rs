//! The claims of one node: reads and changes of their records.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use dra_checkpoint::{ClaimRef, Claims, CommitError, Damage, Store, StoreError, View};
use imex_cdi::ClaimSpecs;

use crate::device_group::DeviceGroup;
use crate::holder_policy::HolderPolicy;
use crate::imex_daemon::ImexDaemon;
use crate::lifecycle::{ClaimState, Step, Transaction};
use crate::moment::FenceClock;

/// The claims of one node: its checkpoint and its CDI specs.
///
/// # Contract
///
/// Every method may be called from any thread, concurrently with every other,
/// and while another process serves the same node. Methods that return a
/// `Result` read and write files and wait for a lock: call them where blocking
/// is allowed, never on an async worker. The others answer from memory.
///
/// The caller ensures that [`prepare`](Self::prepare) and
/// [`unprepare`](Self::unprepare) of one claim do not overlap in this process.
#[derive(Debug)]
pub struct NodeClaims {
    pub(crate) store: Store<DeviceGroup>,
    pub(crate) specs: Arc<ClaimSpecs>,
    pub(crate) fences: Arc<FenceClock>,
    pub(crate) holder_policy: HolderPolicy,
    /// Only in driver-managed mode.
    pub(crate) daemon: Option<Arc<ImexDaemon>>,
    /// Claims not allocated to this node, with a spec that could not be removed. The next start retries.
    pub(crate) strays: Arc<Mutex<BTreeSet<String>>>,
}

/// Why the checkpoint cannot be changed now.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// The writer, a thread of this process, has died or hangs in disk I/O.
    #[error("the checkpoint's writer thread does not respond")]
    Unresponsive(#[source] StoreError),
    /// The writer works, but another process's lock or the disk blocks it.
    #[error("the checkpoint cannot be changed")]
    Blocked(#[source] StoreError),
}

// === impl NodeClaims ===

impl NodeClaims {
    /// The damage of the checkpoint. While it is damaged, the devices in use are
    /// unknown, and no claim is prepared until [`rebuild`](Self::rebuild). Any call
    /// may find damage, so check again periodically.
    pub fn damage(&self) -> Damage {
        self.store.view().damage().clone()
    }

    /// The claims with a record, for checks against the API server. Names are empty
    /// if a Go driver release that does not store names wrote the record.
    pub fn recorded_claims(&self) -> Vec<ClaimRef> {
        let view = self.store.view();
        view.records_unchecked()
            .map(|(uid, record)| ClaimRef {
                uid: uid.to_owned(),
                name: record.name.clone(),
                namespace: record.namespace.clone(),
            })
            .collect()
    }

    /// The number of channels that Completed records hold.
    pub fn prepared_channels(&self) -> usize {
        let view = self.store.view();
        view.records_unchecked()
            .flat_map(|(_, record)| record.devices())
            .flat_map(DeviceGroup::channels)
            .count()
    }

    /// Checks that the checkpoint can be changed now. Takes the lock, writes no file, and
    /// waits for 30 s at most.
    ///
    /// # Errors
    /// [`WriterError`]: whether the writer itself or something else blocks changes.
    pub fn probe_writable(&self) -> Result<(), WriterError> {
        match self.store.commit(|_| Ok::<_, Infallible>(())) {
            Ok(()) => Ok(()),
            Err(CommitError::Refused(never)) => match never {},
            Err(CommitError::Store(source)) => Err(match source {
                StoreError::QueueFull { .. }
                | StoreError::NotBegun { .. }
                | StoreError::Unanswered { .. }
                | StoreError::WriterPanicked => WriterError::Unresponsive(source),
                source => WriterError::Blocked(source),
            }),
        }
    }

    /// Changes records under the checkpoint's lock. If `change` fails, the checkpoint
    /// stays unchanged, but changes of specs are not undone.
    pub(crate) fn commit<R, E>(
        &self,
        change: impl FnOnce(&mut Claims<DeviceGroup>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.store.commit(change).map_err(either)
    }
}

fn either<E: From<StoreError>>(error: CommitError<E>) -> E {
    match error {
        CommitError::Refused(error) => error,
        CommitError::Store(error) => error.into(),
    }
}

/// The steps of a transaction that does not depend on the claim's spec.
pub(crate) fn steps(
    view: &View<DeviceGroup>,
    uid: &str,
    transaction: Transaction,
) -> &'static [Step] {
    let state = ClaimState {
        record: view.phase(uid),
        has_spec: false,
    };
    state.steps(transaction)
}
