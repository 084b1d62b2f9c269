use std::sync::{Arc, Mutex, PoisonError, RwLock};

use durable_file::{Dir, Version};

use crate::boot::BootId;
use crate::claims::Claims;
use crate::damage::Damage;
use crate::disk;
use crate::error::{CommitError, StoreError};
use crate::format::Checkpoint;
use crate::record::Payload;
use crate::view::View;

/// The checkpoint of one driver on one node.
///
/// Several processes may have it open, of this or the Go driver: each commit
/// takes the lock, and reads again if another one has written meanwhile.
///
/// Every call may block on the disk, [`view`](Self::view) excepted.
#[derive(Debug)]
pub struct Store<P> {
    dir: Arc<dyn Dir>,
    boot: BootId,
    writer: Mutex<Writer>,
    view: RwLock<Arc<View<P>>>,
}

/// What the last one to touch the file left.
#[derive(Debug)]
struct Writer {
    /// The content that the view is of; `None`: there was no file.
    version: Option<Version>,
    /// A write has failed, or the file has vanished: what is visible may not be
    /// durable. A later fsync alone would not tell: the kernel reports a lost
    /// page once.
    unsure: bool,
}

// === impl Store ===

impl<P: Payload> Store<P> {
    /// Opens the checkpoint in `dir`; a missing file is an empty checkpoint,
    /// written with the first commit.
    ///
    /// A file that cannot be trusted is set aside under a name that says why,
    /// and what survives is in the store. The [`Damage`] also reports what an
    /// earlier process found and did not settle.
    ///
    /// `boot` is the running boot. Records of another one are kept, and nothing
    /// new can be started, until the caller has undone them and says so; see
    /// [`View::boot`] and [`Claims::forget_earlier_boot`]. The caller has both
    /// to look at before its first claim: the damage and the boot.
    pub fn open(dir: Arc<dyn Dir>, boot: BootId) -> Result<(Self, Damage), StoreError> {
        let _lock = disk::lock(&*dir)?;
        let loaded = disk::load(&*dir)?;
        let damage = loaded.damage.clone();
        let view = RwLock::new(Arc::new(View::new(loaded.checkpoint, loaded.damage, &boot)));
        let writer = Mutex::new(Writer {
            version: loaded.version,
            unsure: false,
        });
        Ok((
            Self {
                dir,
                boot,
                writer,
                view,
            },
            damage,
        ))
    }

    /// What the last commit left, of this process, or of others as seen in it.
    /// Never waits for a commit in progress. What was read here may be
    /// outdated a moment later: decide inside a commit.
    pub fn view(&self) -> Arc<View<P>> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies `change` to the claims and makes the result durable before
    /// returning. If `change` fails, or changes nothing, nothing is written.
    ///
    /// The file is locked meanwhile: `change` must not wait for anything. It
    /// owns what it uses (`Send + 'static`), as does what it returns: which
    /// thread runs it is the store's to choose, a writer's of its own included.
    pub fn commit<R, E>(
        &self,
        change: impl FnOnce(&mut Claims<P>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, CommitError<E>>
    where
        R: Send + 'static,
        E: Send + 'static,
    {
        // A change that panicked had its own copy of the claims.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = disk::lock(&*self.dir)?;
        self.refresh(&mut writer)?;
        if writer.unsure {
            // Else `change` could answer on the strength of what a power loss
            // takes back.
            self.write(&mut writer, View::clone(&self.view()), false)?;
        }
        let mut claims = Claims::new(View::clone(&self.view()), self.boot.clone());
        let answer = change(&mut claims).map_err(CommitError::Refused)?;
        if claims.changed {
            let settles_damage = claims.settles_damage;
            self.write(&mut writer, claims.into_view(), settles_damage)?;
        }
        Ok(answer)
    }

    /// Reads again if another process wrote.
    fn refresh(&self, writer: &mut Writer) -> Result<(), StoreError> {
        if disk::is_current(&*self.dir, writer.version.as_ref())? {
            return Ok(());
        }
        let loaded = disk::load(&*self.dir)?;
        if loaded.version.is_none() && writer.version.is_some() && loaded.damage == Damage::None {
            // The file was taken away; what it held is known, and not undone.
            writer.version = None;
            writer.unsure = true;
            return Ok(());
        }
        let mut checkpoint = loaded.checkpoint;
        if loaded.version.is_none() {
            // The file went bad under us: what we know survives too.
            checkpoint.add_missing(self.view().to_checkpoint());
        }
        writer.version = loaded.version;
        self.publish(View::new(checkpoint, loaded.damage, &self.boot));
        Ok(())
    }

    fn write(
        &self,
        writer: &mut Writer,
        view: View<P>,
        settles_damage: bool,
    ) -> Result<(), StoreError> {
        let bytes = view.to_checkpoint().encode()?;
        // Until it has succeeded, what is visible may not be durable.
        writer.unsure = true;
        writer.version = Some(disk::replace(&*self.dir, &bytes)?);
        if settles_damage {
            // Only now: before, a crash would have hidden the loss.
            disk::settle(&*self.dir)?;
        }
        writer.unsure = false;
        self.publish(view);
        Ok(())
    }

    fn publish(&self, view: View<P>) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}

// === impl View ===

impl<P> View<P> {
    fn new(checkpoint: Checkpoint<P>, damage: Damage, current: &BootId) -> Self {
        let Checkpoint { records, boot_id } = checkpoint;
        let boot = current.compare(boot_id.as_deref());
        let mut view = Self {
            records,
            recorded_boot: boot_id,
            boot,
            damage,
        };
        view.adopt_boot_if_empty(current);
        view
    }

    fn to_checkpoint(&self) -> Checkpoint<P> {
        Checkpoint {
            records: self.records.clone(),
            boot_id: self.recorded_boot.clone(),
        }
    }
}
