//! The claims of one node: reads and changes of their records.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dra_checkpoint::{ClaimRef, Claims, CommitError, Damage, Payload, Store, StoreError, View};
use imex_cdi::ClaimSpecs;

use crate::devices::Devices;
use crate::error::PrepareError;
use crate::lifecycle::{ClaimState, Step, Transaction};
use crate::moment::FenceClock;

/// How long a read waits for the lock, as long as a commit does.
const READ_LIMIT: Duration = Duration::from_secs(30);

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
pub struct NodeClaims<D: Devices> {
    pub(crate) store: Store<D::Group>,
    pub(crate) specs: Arc<ClaimSpecs>,
    pub(crate) fences: Arc<FenceClock>,
    pub(crate) devices: Arc<D>,
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

impl<D: Devices> NodeClaims<D> {
    /// The records in this process's cache. Another process may have changed them.
    pub fn view(&self) -> Arc<View<D::Group>> {
        self.store.view()
    }

    /// The driver's devices.
    pub fn devices(&self) -> &D {
        &self.devices
    }

    /// Reads the records under the checkpoint's lock, so with the changes of other processes. Writes no file.
    ///
    /// # Errors
    /// The checkpoint cannot be read within `limit`.
    pub fn read_locked<R: Send + 'static>(
        &self,
        limit: Duration,
        read: impl FnOnce(&View<D::Group>) -> R + Send + 'static,
    ) -> Result<R, StoreError> {
        let read = move |claims: &mut Claims<D::Group>| Ok::<_, Infallible>(read(claims));
        match self.store.commit_within(limit, read) {
            Ok(read) => Ok(read),
            Err(CommitError::Refused(never)) => match never {},
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    /// The damage of the checkpoint. While it is damaged, the devices in use are
    /// unknown, and no claim is prepared until [`rebuild`](Self::rebuild). Any call
    /// may find damage, so check again periodically.
    pub fn damage(&self) -> Damage {
        self.store.view().damage().clone()
    }

    /// The claims with a record, for checks against the API server. Names are empty
    /// if a Go driver release that does not store names wrote the record. Claims that have lost their record but
    /// have changed hardware are among them: nothing is restored before the API server has been asked.
    pub fn recorded_claims(&self) -> Vec<ClaimRef> {
        let view = self.store.view();
        let records = view.records_unchecked();
        let recorded = records.map(|(uid, record)| record.claim_ref(uid));
        let changed = self.devices.changed_claims().into_iter();
        recorded
            .chain(changed.filter(|claim| view.get(&claim.uid).is_none()))
            .collect()
    }

    /// Whether a container may be using what the claim holds or has changed. According to cached records.
    pub fn may_be_in_use(&self, uid: &str) -> bool {
        let mut changed = self.devices.changed_claims().into_iter();
        self.cached_as_prepared(uid)
            || self.view().get(uid).is_none() && changed.any(|claim| claim.uid == uid)
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

    /// The records, with the changes of other processes.
    ///
    /// # Errors
    /// The checkpoint cannot be read.
    pub fn read_view(&self) -> Result<Arc<View<D::Group>>, StoreError> {
        self.read_locked(READ_LIMIT, |_| ())?;
        Ok(self.view())
    }

    /// Changes records under the checkpoint's lock. If `change` fails, the checkpoint
    /// stays unchanged, but changes of specs are not undone.
    pub(crate) fn commit<R, E>(
        &self,
        change: impl FnOnce(&mut Claims<D::Group>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E>
    where
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.store.commit(change).map_err(|error| match error {
            CommitError::Refused(error) => error,
            CommitError::Store(error) => error.into(),
        })
    }

    /// [`commit`](Self::commit) of a Prepare, whose error is the driver's.
    pub(crate) fn commit_prepare<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Claims<D::Group>) -> Result<R, D::Error> + Send + 'static,
    ) -> Result<R, D::Error> {
        self.store.commit(change).map_err(|error| match error {
            CommitError::Refused(error) => error,
            CommitError::Store(error) => PrepareError::from(error).into(),
        })
    }
}

/// The steps of a transaction that does not depend on the claim's spec.
pub(crate) fn steps<G: Payload>(
    view: &View<G>,
    uid: &str,
    transaction: Transaction,
) -> &'static [Step] {
    let state = ClaimState {
        record: view.phase(uid),
        has_spec: false,
    };
    state.steps(transaction)
}
