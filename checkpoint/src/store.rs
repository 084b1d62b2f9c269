mod job;
mod writer;

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::time::Duration;

use durable_file::Dir;

use self::job::Job;
use self::writer::Writer;
use crate::boot::BootId;
use crate::claims::Claims;
use crate::damage::Damage;
use crate::error::{CommitError, StoreError};
use crate::record::Payload;
use crate::view::{Published, View};

/// How long [`Store::commit`] waits: 10 s for the lock of the batch in flight,
/// 10 s for that of its own batch, the rest for the disk. kubelet's calls time
/// out after 45 s.
const COMMIT_LIMIT: Duration = Duration::from_secs(30);

/// How many calls may wait for the writer. Each blocks a thread of its caller;
/// tokio's pool of blocking threads has at most 512. A node prepares tens of
/// claims at once, so a full queue means that the writer hangs.
const QUEUE_LIMIT: usize = 256;

/// The checkpoint of one driver on one node.
///
/// Several processes of this driver and the Go driver may have it open. Each
/// commit takes the lock, and reads the file again if another process wrote it.
///
/// ```text
///  commit ──► queue ──► writer thread: lock, read if changed, run, write, unlock
///    ▲                      │  every change that arrived meanwhile, in one write
///    └────── answer ◄───────┘
/// ```
///
/// [`open`](Self::open) and [`commit`](Self::commit) block: an async program
/// calls them on its threads for blocking work. Dropping the store does not
/// wait: its thread ends after the commits that are queued.
#[derive(Debug)]
pub struct Store<P> {
    queue: SyncSender<Job<P>>,
    published: Arc<Published<P>>,
}

// === impl Store ===

impl<P: Payload> Store<P> {
    /// Opens the checkpoint in `dir`. A missing file is an empty checkpoint; the
    /// first commit writes it.
    ///
    /// Called once, when the plugin starts. It reads under the lock, and waits
    /// at most 10 s for it. A damaged file is set aside under a name that has the
    /// reason, and the store has what could be recovered of it. The [`Damage`] also
    /// reports what an earlier process found and did not rebuild.
    ///
    /// `boot` is the running boot. Records of another boot are kept, and no claim
    /// can be started, until the caller has undone their effects; see
    /// [`View::boot`] and [`Claims::remove_earlier_boot`]. The caller must resolve
    /// boot and damage before its first claim.
    pub fn open(dir: Arc<dyn Dir>, boot: BootId) -> Result<(Self, Damage), StoreError> {
        let (writer, published) = Writer::open(dir, boot)?;
        let damage = published.get().damage().clone();
        let (queue, jobs) = mpsc::sync_channel(QUEUE_LIMIT);
        std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || writer.serve(&jobs))
            .map_err(|source| StoreError::NoThread(Arc::new(source)))?;
        Ok((Self { queue, published }, damage))
    }

    /// Returns the records after the last commit of this store, with what other
    /// processes had written before it. Never blocks. The view may be stale at
    /// once: decide inside a commit.
    pub fn view(&self) -> Arc<View<P>> {
        self.published.get()
    }

    /// Applies `change` to the claims and makes the result durable before
    /// returning. If `change` fails, nothing of it is written; if it changes
    /// nothing, nothing is written either. A damaged file is set aside in both
    /// cases. If `change` panics, so does this call.
    ///
    /// A change that decides to do nothing returns an error, not a value that says so. A caller
    /// that uses `?` and ignores the value would continue as if the claim had its devices.
    ///
    /// Before the write, each changed record is decoded once: a payload that
    /// cannot be read back fails this change only ([`StoreError::Encode`]).
    ///
    /// Waits for 30 s at most; see [`commit_within`](Self::commit_within).
    ///
    /// # The change
    ///
    /// It runs on the store's thread, owns what it uses, and must not block, least
    /// of all on another commit: the file is locked meanwhile.
    ///
    /// Changes that arrive during a commit share the next one. Each sees the
    /// changes before it, and one write makes them all durable. If that write
    /// fails, every one of them fails with the [`StoreError`], also one that only
    /// read.
    ///
    /// A change may have effects of its claim outside the file, such as a CDI
    /// file. They happen while the lock is held and before the record is durable,
    /// so they
    ///
    /// * stay if the write then fails or the process dies: the file then has the
    ///   old record,
    /// * may be repeated by the caller's next attempt,
    /// * must be correct with both the old record and the new one: undo the
    ///   effects in the change that removes the record. Do not make them in the
    ///   change that completes it, but between that one and the start.
    pub fn commit<R, E>(
        &self,
        change: impl FnOnce(&mut Claims<P>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        self.commit_within(COMMIT_LIMIT, change)
    }

    /// Like [`commit`](Self::commit), but waits at most `limit`. After that:
    ///
    /// * [`StoreError::NotBegun`]: `change` was not run and never will be.
    /// * [`StoreError::Unanswered`]: `change` is running. Its effects and its
    ///   record may come at any time, but before those of any commit that begins
    ///   after this call has returned. Retry, as after any [`StoreError`].
    pub fn commit_within<R, E>(
        &self,
        limit: Duration,
        change: impl FnOnce(&mut Claims<P>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        let (job, caller) = Job::new(change);
        self.send(job)?;
        caller
            .answer(limit)?
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn send(&self, job: Job<P>) -> Result<(), StoreError> {
        self.queue.try_send(job).map_err(|unsent| match unsent {
            TrySendError::Full(_) => StoreError::QueueFull {
                waiting: QUEUE_LIMIT,
            },
            TrySendError::Disconnected(_) => StoreError::WriterPanicked,
        })
    }
}
