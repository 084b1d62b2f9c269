//! The clique in force, which a watch keeps from one read to the next: one failed GPU does not
//! take the clique from the others.
//!
//! | a read returns | result |
//! |---|---|
//! | GPUs of one clique, all registered | the clique is in force |
//! | GPUs of the clique in force, others unregistered | the clique remains in force |
//! | GPUs of another clique, others unregistered | waits for the others; then the clique is in force |
//! | no clique visible, two cliques, permanently none, an error | no clique is in force |
//! | nothing, because the read hangs | unchanged |
//!
//! The wait is necessary because GPUs are registered one after another at boot: an unregistered
//! GPU has not necessarily failed. A clique that was not in force before waits, from the last
//! registration on, for [`failed_for`](WatchConfig::failed_for) if the others have failed, or
//! for [`registering_for`](WatchConfig::registering_for) if one may still be registered.

use std::time::Instant;

use crate::clique_id::CliqueId;
use crate::fabric::{Clique, Fabric};
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::pending::Pending;
use crate::watch_config::WatchConfig;

/// The clique in force, or the clique that is waiting to be.
#[derive(Debug, Default)]
pub(crate) struct CliqueInForce {
    in_force: Option<InForce>,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct InForce {
    id: CliqueId,
    /// Every GPU that has been in the clique since it is in force.
    members: Vec<GpuRef>,
}

/// A clique that is not in force yet, because of unregistered GPUs.
#[derive(Debug)]
struct Waiting {
    id: CliqueId,
    /// The maximum number of GPUs in the clique so far.
    registered: usize,
    /// When that number was reached.
    since: Instant,
}

// === impl CliqueInForce ===

impl CliqueInForce {
    /// Returns the fabric of GPUs that were read at `now`. Adds to `gpus` members of the clique
    /// in force that NVML no longer enumerates, and UUIDs that it no longer reports.
    pub(crate) fn read(
        &mut self,
        gpus: &mut Vec<Gpu>,
        now: Instant,
        config: &WatchConfig,
    ) -> Fabric {
        // Without any GPU, there is no clique that a GPU could be missing from.
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
            }) if self.is_or_becomes_in_force(id, gpus, now, config) => {
                let missing = [worst].into_iter().chain(others).collect();
                Fabric::Clique(Clique::new(id, &gpus.iter().collect::<Vec<_>>(), missing))
            }
            fabric => fabric,
        };
        match &fabric {
            Fabric::Clique(clique) => self.set_in_force(clique.id, gpus),
            // A waiting clique is kept.
            Fabric::Pending(Pending::IncompleteRegistration {
                clique: Some(_), ..
            }) => self.in_force = None,
            _ => self.forget(),
        }
        fabric
    }

    /// Resets the state, because NVML as a whole failed or was removed.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    // req: NODE-43
    fn is_or_becomes_in_force(
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
    /// Restores missing members. A lost GPU often does not report its UUID, so it is identified
    /// by its index. A GPU that is not enumerated is added.
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
