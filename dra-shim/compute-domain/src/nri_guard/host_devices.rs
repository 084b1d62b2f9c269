//! Resolves the CDI names that a container requests with the host's CDI specs. NVIDIA's runtime
//! resolves them itself, after the guard, so the container's devices do not show them yet.
//!
//! ```text
//! names of the container ──► look_up ──► DefinedNodes: the device nodes of each name that a spec
//!                              │          defines, and why there may be more
//!                              └──► specs: read again only after a change
//! ```

mod specs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use imex_cdi::{DefinedNodes, UnresolvedNames};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::specs::Specs;

/// The host's CDI directories. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HostDevices {
    /// One reader at a time, however many containers start, even if the disk hangs.
    specs: Arc<Mutex<Specs>>,
}

// === impl HostDevices ===

impl HostDevices {
    pub(crate) fn new(dirs: Vec<PathBuf>) -> Self {
        Self {
            specs: Arc::new(Mutex::new(Specs::new(dirs))),
        }
    }

    /// Resolves `names` with the current specs. No names, no read.
    pub(super) async fn look_up(&self, names: &UnresolvedNames, limit: Duration) -> DefinedNodes {
        if names.is_empty() {
            return DefinedNodes::default();
        }
        let (specs, names) = (Arc::clone(&self.specs), names.clone());
        let read = async move {
            // The reader keeps the lock even after its caller has timed out.
            let mut specs = specs.lock_owned().await;
            spawn_blocking(move || read(&mut specs, &names)).await
        };
        match timeout(limit, read).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => DefinedNodes::unknown(error.to_string()),
            Err(_) => {
                let waited = limit.as_secs_f32();
                DefinedNodes::unknown(format!(
                    "the host's CDI specs were not read within {waited:.1} s"
                ))
            }
        }
    }
}

fn read(specs: &mut Specs, names: &UnresolvedNames) -> DefinedNodes {
    match specs.current() {
        Ok(registry) => DefinedNodes::read(registry, names),
        Err(error) => DefinedNodes::unknown(format!("{error}: {}", error.hint())),
    }
}

#[cfg(test)]
mod other_readers_tests;
#[cfg(test)]
mod tests;
