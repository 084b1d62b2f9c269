//! The clique that is in force: what a watch remembers from one read to the next,
//! so that one GPU that fails does not take the clique from the others.
//!
//! | a read returns | then |
//! |---|---|
//! | GPUs of one clique, all registered | it is in force |
//! | some of the clique in force, others not registered | it stays in force |
//! | some of another clique, others not registered | the others are given time; then it is in force |
//! | anything else: no clique visible, two cliques, none for good, an error | nothing is in force |
//! | nothing: it hangs | as before |
//!
//! *Given time*: at a boot, GPUs are registered one after another, and one that is
//! registered does not mean that the others have failed. So a clique that was not in
//! force before waits, from the last registration on, for
//! [`failed_for`](WatchConfig::failed_for) while the others have failed, and for
//! [`registering_for`](WatchConfig::registering_for) while one may yet be registered.

use std::time::Instant;

use crate::clique_id::CliqueId;
use crate::fabric::{Clique, Fabric};
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::pending::Pending;
use crate::watch_config::WatchConfig;

/// The memory of a watch.
#[derive(Debug, Default)]
pub(crate) struct CliqueInForce {
    in_force: Option<InForce>,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct InForce {
    id: CliqueId,
    /// Every GPU that was in it since it is in force.
    members: Vec<GpuRef>,
}

/// A clique that is not in force yet because of GPUs that are not registered.
#[derive(Debug)]
struct Waiting {
    id: CliqueId,
    /// The most GPUs that were in it.
    registered: usize,
    /// When that number was reached.
    since: Instant,
}

// === impl CliqueInForce ===

impl CliqueInForce {
    /// The fabric of GPUs that were read at `now`. Adds to `gpus` those of the clique
    /// in force that NVML no longer enumerates, and the UUIDs that it no longer tells.
    pub(crate) fn read(
        &mut self,
        gpus: &mut Vec<Gpu>,
        now: Instant,
        config: &WatchConfig,
    ) -> Fabric {
        // With none left there is nothing to be missed from.
        if let Some(in_force) = &self.in_force
            && !gpus.is_empty()
        {
            in_force.restore(gpus);
        }
        let fabric = match Fabric::from_gpus(gpus) {
            Fabric::Pending(Pending::IncompleteRegistration {
                worst,
                others,
                gpus: _,
                clique: Some(id),
            }) if self.is_or_comes_into_force(id, gpus, now, config) => {
                let missing = [worst].into_iter().chain(others).collect();
                Fabric::Clique(Clique::new(id, &gpus.iter().collect::<Vec<_>>(), missing))
            }
            fabric => fabric,
        };
        match &fabric {
            Fabric::Clique(clique) => self.set_in_force(clique.id, gpus),
            // A clique that waits is not forgotten.
            Fabric::Pending(Pending::IncompleteRegistration {
                clique: Some(_), ..
            }) => self.in_force = None,
            _ => self.forget(),
        }
        fabric
    }

    /// Nothing is in force: NVML as a whole failed, or is gone.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    // req: NODE-43
    fn is_or_comes_into_force(
        &mut self,
        id: CliqueId,
        gpus: &[Gpu],
        now: Instant,
        config: &WatchConfig,
    ) -> bool {
        if self.in_force.as_ref().is_some_and(|it| it.id == id) {
            return true;
        }
        let registered = members(id, gpus).count();
        let since = match &self.waiting {
            Some(waiting) if waiting.id == id && registered <= waiting.registered => waiting.since,
            _ => {
                self.waiting = Some(Waiting {
                    id,
                    registered,
                    since: now,
                });
                now
            }
        };
        let limit = if gpus.iter().any(|gpu| gpu.fabric.is_registering()) {
            config.registering_for
        } else {
            config.failed_for
        };
        now.duration_since(since) >= limit
    }

    fn set_in_force(&mut self, id: CliqueId, gpus: &[Gpu]) {
        self.waiting = None;
        let mut known = match self.in_force.take() {
            Some(in_force) if in_force.id == id => in_force.members,
            _ => Vec::new(),
        };
        known.retain(|gpu| !members(id, gpus).any(|member| member.uuid == gpu.uuid));
        known.extend(members(id, gpus).cloned());
        self.in_force = Some(InForce { id, members: known });
    }
}

fn members(id: CliqueId, gpus: &[Gpu]) -> impl Iterator<Item = &GpuRef> {
    gpus.iter()
        .filter(move |gpu| gpu.clique() == Some(id))
        .map(|gpu| &gpu.id)
}

// === impl InForce ===

impl InForce {
    /// A GPU that is lost often does not even tell its UUID: it is the one that had
    /// its index. One that is not enumerated at all is added.
    fn restore(&self, gpus: &mut Vec<Gpu>) {
        for member in &self.members {
            if gpus.iter().any(|gpu| gpu.id.uuid == member.uuid) {
                continue;
            }
            let nameless = |gpu: &&mut Gpu| gpu.id.uuid.is_none() && gpu.id.index == member.index;
            match gpus.iter_mut().find(nameless) {
                Some(gpu) => gpu.id.uuid.clone_from(&member.uuid),
                None => gpus.push(Gpu {
                    id: member.clone(),
                    name: None,
                    fabric: GpuFabricState::Vanished,
                    health: None,
                }),
            }
        }
    }
}

#[cfg(test)]
#[path = "clique_in_force_tests.rs"]
mod tests;
