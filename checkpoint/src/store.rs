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

/// How long [`Store::commit`] waits. The batch in flight and its own may each
/// wait 10 s for the lock, the rest is for the disk; kubelet gives a call up
/// after 45 s.
const COMMIT_LIMIT: Duration = Duration::from_secs(30);

/// How many calls may wait for the writer. Each has, or had, a caller's thread
/// that waits for it; tokio's pool for them has 512 at most, and a node
/// prepares tens of claims at once. More than this means that nothing moves.
const QUEUE_LIMIT: usize = 256;

/// The checkpoint of one driver on one node.
///
/// Several processes may have it open, of this or the Go driver: each commit
/// takes the lock, and reads again if another one has written meanwhile.
///
/// ```text
///  commit ──► queue ──► writer thread: lock, read if changed, run, write, unlock
///    ▲                      │  every change that arrived meanwhile, in one write
///    └────── answer ◄───────┘
/// ```
///
/// [`open`](Self::open) and [`commit`](Self::commit) block: in a program with
/// an async runtime they belong on its threads for that. Dropping the store
/// ends its thread after the commits in its queue, and does not wait for it.
#[derive(Debug)]
pub struct Store<P> {
    queue: SyncSender<Job<P>>,
    published: Arc<Published<P>>,
}

// === impl Store ===

impl<P: Payload> Store<P> {
    /// Opens the checkpoint in `dir`; a missing file is an empty checkpoint,
    /// written with the first commit.
    ///
    /// Called once, when the plugin starts; it reads under the lock, for which
    /// it waits 10 s at most. A damaged file is set aside under a name that says
    /// why, and what can be recovered of it is in the store. The [`Damage`] also
    /// reports what an earlier process found and did not rebuild.
    ///
    /// `boot` is the running boot. Records of another one are kept, and nothing
    /// new can be started, until the caller has undone their effects; see
    /// [`View::boot`] and [`Claims::remove_earlier_boot`]. Before its first claim
    /// the caller deals with both: the boot and the damage.
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
    /// processes had written before it. Never blocks. It may be outdated a moment
    /// later: decide inside a commit.
    pub fn view(&self) -> Arc<View<P>> {
        self.published.get()
    }

    /// Applies `change` to the claims and makes the result durable before
    /// returning. If `change` fails it leaves no trace in the file, and if
    /// nothing changes nothing is written (a file that is found damaged is set
    /// aside all the same). If it panics, so does this call.
    ///
    /// A change that decides that nothing is to be done says so by its error: an answer that
    /// says so is dropped by the `?` of a caller that does not look, who then goes on as if the
    /// claim had its devices.
    ///
    /// What the change wrote is decoded once before it goes to the file: a
    /// payload that cannot be read back fails this change and no other
    /// ([`StoreError::Encode`]).
    ///
    /// Waits for 30 s at most; see [`commit_within`](Self::commit_within).
    ///
    /// # The change
    ///
    /// It runs on the store's thread, owns what it uses, and must not wait for
    /// anything, another commit least of all: the file is locked meanwhile.
    ///
    /// Changes that arrive during a commit share the next one. Each sees the
    /// changes of those before it, and becomes durable in the same write as they
    /// do. If that write fails, every one of them fails with the [`StoreError`],
    /// also one that only read.
    ///
    /// A change may have effects outside the file, on the claim that it is
    /// about: a CDI file, say. They are done while the lock is held, and before
    /// the record is durable, so they
    ///
    /// * stay when the write then fails, or the process dies: the file then
    ///   has the old record,
    /// * may be done again, by the caller's next attempt,
    /// * must be right next to the old record and next to the new one: undo
    ///   the effects in the change that removes the record, and do not make
    ///   them in the change that completes it, but between it and the start.
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

    /// As [`commit`](Self::commit), but waits for `limit` at most. Then:
    ///
    /// * [`StoreError::NotBegun`]: `change` was not run and will not be.
    /// * [`StoreError::Unanswered`]: it is run, and its effects and its record
    ///   may come at any time, but before those of any commit that begins
    ///   after this call has returned. Repeat the call, as after any
    ///   [`StoreError`].
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
