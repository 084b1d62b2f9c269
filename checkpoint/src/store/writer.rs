//! The only thread that reads and writes the files.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use durable_file::{Dir, Version};

use super::job::Job;
use crate::aborted_file::AbortedFile;
use crate::boot::BootId;
use crate::claims::Claims;
use crate::damage::Damage;
use crate::disk::{self, CHECKPOINT_FILE, Loaded};
use crate::error::StoreError;
use crate::record::Payload;
use crate::view::{Published, View};

/// The state of the writer thread.
pub(super) struct Writer<P> {
    dir: Arc<dyn Dir>,
    boot: BootId,
    /// The durable records; never ahead of the file.
    published: Arc<Published<P>>,
    /// The version of the file that the view was read from; `None`: no file.
    version: Option<Version>,
    /// Unused if the checkpoint has the aborted records, too.
    aborted: AbortedFile,
    /// A write failed or the file was deleted: the visible content may not be
    /// durable, so the next commit writes it again. A later fsync is not enough,
    /// because the kernel reports a lost page only once.
    maybe_not_durable: bool,
}

// === impl Writer ===

impl<P: Payload> Writer<P> {
    pub(super) fn open(
        dir: Arc<dyn Dir>,
        boot: BootId,
    ) -> Result<(Self, Arc<Published<P>>), StoreError> {
        let lock = disk::lock(&*dir)?;
        let (loaded, aborted) = load(&*dir)?;
        drop(lock);
        let view = View::new(loaded.checkpoint, loaded.damage, &boot);
        let published = Arc::new(Published::new(view));
        let writer = Self {
            dir,
            boot,
            published: Arc::clone(&published),
            version: loaded.version,
            aborted,
            maybe_not_durable: false,
        };
        Ok((writer, published))
    }

    /// Commits until the store is dropped and its queue is empty.
    pub(super) fn serve(mut self, queue: &Receiver<Job<P>>) {
        while let Ok(first) = queue.recv() {
            // After a panic the callers see their channels close. `maybe_not_durable` is
            // set if the panic happened during a write.
            let _ = catch_unwind(AssertUnwindSafe(|| self.commit(first, queue)));
        }
    }

    /// Takes one lock, one read and one write for `first` and every queued change.
    /// No caller is answered before its change is durable.
    pub(super) fn commit(&mut self, first: Job<P>, queue: &Receiver<Job<P>>) {
        let mut batch = vec![first];
        batch.extend(queue.try_iter());
        let written = self.locked(&mut batch, queue);
        for job in batch {
            job.answer(written.clone());
        }
    }

    // req: CKPT-8
    fn locked(
        &mut self,
        batch: &mut Vec<Job<P>>,
        queue: &Receiver<Job<P>>,
    ) -> Result<(), StoreError> {
        let _lock = disk::lock(&*self.dir)?;
        // Add the changes that arrived while another process had the lock.
        batch.extend(queue.try_iter());
        self.refresh()?;
        if self.maybe_not_durable {
            // Otherwise a change could act on records that a power loss undoes.
            self.write(View::clone(&self.published.get()), false)?;
        }
        let mut claims = Claims::new(View::clone(&self.published.get()), self.boot.clone());
        for job in batch {
            job.run(&mut claims);
        }
        if claims.is_missing_noted {
            let damage = disk::note_missing(&*self.dir)?;
            claims.set_damage(damage);
        }
        if claims.changed {
            let is_rebuilt = claims.is_rebuilt;
            self.write(claims.into_view(), is_rebuilt)?;
        } else if claims.is_missing_noted {
            self.published.set(claims.into_view());
        }
        Ok(())
    }

    /// Reads the files again if another process wrote them.
    // req: CKPT-9
    fn refresh(&mut self) -> Result<(), StoreError> {
        if self.is_current()? {
            return Ok(());
        }
        let (loaded, aborted) = load(&*self.dir)?;
        self.aborted = aborted;
        if loaded.version.is_none() && self.version.is_some() && loaded.damage == Damage::None {
            // The file was deleted; its content is known and is written again.
            self.version = None;
            self.maybe_not_durable = true;
            return Ok(());
        }
        let mut checkpoint = loaded.checkpoint;
        if loaded.version.is_none() {
            // The file has since been damaged: add the records in memory, too.
            checkpoint.add_missing(self.published.get().to_checkpoint());
        }
        self.version = loaded.version;
        self.published
            .set(View::new(checkpoint, loaded.damage, &self.boot));
        Ok(())
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        let dir = &*self.dir;
        Ok(disk::is_current(dir, self.version.as_ref())?
            && (P::HAS_ABORTED || self.aborted.is_current(dir)?))
    }

    // req: CKPT-7, CKPT-19, CKPT-20
    fn write(&mut self, mut view: View<P>, is_rebuilt: bool) -> Result<(), StoreError> {
        let dir = &*self.dir;
        let bytes = view.encode()?;
        let aborted = (!P::HAS_ABORTED).then(|| view.encode_aborted(&self.published.get()));
        let aborted = aborted.transpose()?;
        // Until the write succeeds, the visible files may not be durable.
        let is_forced = mem::replace(&mut self.maybe_not_durable, true);
        // An aborted record counts as soon as the checkpoint does not have its claim, so it is written
        // before and removed after the checkpoint.
        if let Some([meanwhile, _]) = &aborted {
            self.aborted.write(dir, meanwhile, is_forced)?;
        }
        let version = disk::replace(dir, CHECKPOINT_FILE, &bytes)?;
        if let Some([_, after]) = &aborted {
            self.aborted.write(dir, after, false)?;
        }
        self.version = Some(version);
        self.maybe_not_durable = false;
        if is_rebuilt {
            // Only after the write: earlier, a crash would have hidden the loss.
            // If this fails, the store stays damaged but has the restored records.
            let rebuilt = view.clone();
            view.damage = self.published.get().damage().clone();
            self.published.set(view);
            disk::mark_settled(&*self.dir)?;
            view = rebuilt;
        }
        self.published.set(view);
        Ok(())
    }
}

/// Reads both files.
fn load<P: Payload>(dir: &dyn Dir) -> Result<(Loaded<P>, AbortedFile), StoreError> {
    if P::HAS_ABORTED {
        return Ok((disk::load(dir)?, AbortedFile::default()));
    }
    // First, because `disk::load` makes the directory durable.
    let (aborted, records) = AbortedFile::load(dir)?;
    let mut loaded = disk::load(dir)?;
    loaded.checkpoint.add_aborted(&records);
    Ok((loaded, aborted))
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
