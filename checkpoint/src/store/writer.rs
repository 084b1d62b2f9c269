//! The one thread that touches the file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use durable_file::{Dir, Version};

use super::job::Job;
use crate::boot::BootId;
use crate::claims::Claims;
use crate::damage::Damage;
use crate::disk;
use crate::error::StoreError;
use crate::record::Payload;
use crate::view::{Published, View};

/// The state of the thread: what the last writer of the file left.
pub(super) struct Writer<P> {
    dir: Arc<dyn Dir>,
    boot: BootId,
    /// What is durable; never ahead of the file.
    published: Arc<Published<P>>,
    /// The file that the view was read from; `None`: there was none.
    version: Option<Version>,
    /// A write has failed, or the file has vanished: what is visible may not be
    /// durable, and the next commit writes it again. A later fsync would not
    /// do: the kernel reports a lost page once.
    unsure: bool,
}

// === impl Writer ===

impl<P: Payload> Writer<P> {
    pub(super) fn open(
        dir: Arc<dyn Dir>,
        boot: BootId,
    ) -> Result<(Self, Arc<Published<P>>), StoreError> {
        let lock = disk::lock(&*dir)?;
        let loaded = disk::load(&*dir)?;
        drop(lock);
        let view = View::new(loaded.checkpoint, loaded.damage, &boot);
        let published = Arc::new(Published::new(view));
        let writer = Self {
            dir,
            boot,
            published: Arc::clone(&published),
            version: loaded.version,
            unsure: false,
        };
        Ok((writer, published))
    }

    /// Commits until the store is dropped and its queue is empty.
    pub(super) fn serve(mut self, queue: &Receiver<Job<P>>) {
        while let Ok(first) = queue.recv() {
            // A caller whose answer is lost in a panic sees its channel close;
            // `unsure` is set if the panic came during a write.
            let _ = catch_unwind(AssertUnwindSafe(|| self.commit(first, queue)));
        }
    }

    /// One lock, one read and one write for `first` and every change that waits.
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
        // Also the changes that arrived while another process had the lock.
        batch.extend(queue.try_iter());
        self.refresh()?;
        if self.unsure {
            // Or a change could act on what a power loss takes back.
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

    /// Reads again if another process wrote.
    // req: CKPT-9
    fn refresh(&mut self) -> Result<(), StoreError> {
        if disk::is_current(&*self.dir, self.version.as_ref())? {
            return Ok(());
        }
        let loaded = disk::load(&*self.dir)?;
        if loaded.version.is_none() && self.version.is_some() && loaded.damage == Damage::None {
            // Someone deleted the file; its content is known, and written again.
            self.version = None;
            self.unsure = true;
            return Ok(());
        }
        let mut checkpoint = loaded.checkpoint;
        if loaded.version.is_none() {
            // The file was damaged since: what we know is recovered too.
            checkpoint.add_missing(self.published.get().to_checkpoint());
        }
        self.version = loaded.version;
        self.published
            .set(View::new(checkpoint, loaded.damage, &self.boot));
        Ok(())
    }

    // req: CKPT-7
    fn write(&mut self, mut view: View<P>, is_rebuilt: bool) -> Result<(), StoreError> {
        let bytes = view.encode()?;
        // Until it has succeeded, what is visible may not be durable.
        self.unsure = true;
        self.version = Some(disk::replace(&*self.dir, &bytes)?);
        self.unsure = false;
        if is_rebuilt {
            // Only now: before, a crash would have hidden the loss. If it fails
            // the store stays damaged, and knows what was restored.
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

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
