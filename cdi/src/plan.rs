//! What CDI devices change in a container: decided first, done after.
//!
//! ```text
//!  Registry ──┐
//!  names ─────┤
//!  facts ─────┼─► Plan::new ──► steps ──► Plan::apply ──► OciConfig
//!  HostNodes ─┘   may refuse              cannot fail
//! ```
//!
//! The Go library (`InjectDevices` in `pkg/cdi/cache.go`) edits while it looks
//! at the host, so an error in the second device leaves the first one in.

mod changes;
mod error;
mod host;
mod node;
mod step;

use std::collections::BTreeSet;

pub use error::PlanError;
pub use host::{HostDevice, HostNode, HostNodes, OsHost};
pub use step::{Change, Source, Step};

use self::step::Owner;
use crate::{ContainerEdits, ContainerFacts, OciConfig, QualifiedName, Registry, Resolved};

/// The steps that give a container its CDI devices.
///
/// Pure data: two plans for the same container and host are equal, and a step
/// says which field of which file asked for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
}

// === impl Plan ===

impl Plan {
    /// Plans to give `container` the devices `names`.
    ///
    /// All or nothing: every name is resolved, every node of the host looked
    /// at, and the shape of the config checked before there is a plan. The
    /// steps come in the order of `names`; the edits of a file itself come
    /// once, before those of its first device. A name that is given again
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`PlanError::Unresolved`] lists all names that have no device.
    pub fn new(
        registry: &Registry,
        names: &[QualifiedName],
        container: &impl OciConfig,
        host: &dyn HostNodes,
    ) -> Result<Self, PlanError> {
        let devices = resolve(registry, names)?;
        let facts = container.facts().map_err(PlanError::Config)?;
        let mut planner = Planner {
            facts,
            host,
            steps: Vec::new(),
        };
        let mut files = BTreeSet::new();
        for device in &devices {
            if files.insert(&device.file.path) {
                planner.add(&Owner::spec(device), device.spec.container_edits())?;
            }
            planner.add(&Owner::device(device), &device.device.container_edits)?;
        }
        Ok(Self {
            steps: planner.steps,
        })
    }

    /// The steps, in the order in which they are applied.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Applies the plan, in time that grows as `n log n` with steps and config.
    ///
    /// `config` is the container that the plan was made for. In another one
    /// the owners of nodes are those of the first, and a section that
    /// [`OciConfig::facts`] would refuse is replaced.
    pub fn apply(&self, config: &mut impl OciConfig) {
        changes::apply(&self.steps, config);
    }
}

/// The devices of `names` in order, each once.
fn resolve<'a>(
    registry: &'a Registry,
    names: &[QualifiedName],
) -> Result<Vec<Resolved<'a>>, PlanError> {
    let (mut devices, mut unresolved) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for name in names.iter().filter(|name| seen.insert(*name)) {
        match registry.resolve(name) {
            Ok(device) => devices.push(device),
            Err(why) => unresolved.push(why),
        }
    }
    if unresolved.is_empty() {
        Ok(devices)
    } else {
        Err(PlanError::Unresolved(unresolved))
    }
}

/// A plan being made.
struct Planner<'a> {
    facts: ContainerFacts,
    host: &'a dyn HostNodes,
    steps: Vec<Step>,
}

impl Planner<'_> {
    /// Adds the steps of `edits`, kind by kind in the order in which the Go
    /// library applies them.
    fn add(&mut self, owner: &Owner, edits: &ContainerEdits) -> Result<(), PlanError> {
        let ContainerEdits {
            env,
            device_nodes,
            net_devices,
            hooks,
            mounts,
            intel_rdt,
            additional_gids,
        } = edits;
        self.add_each(owner, "env", env, Change::SetEnv);
        for (at, node) in device_nodes.iter().enumerate() {
            let source = owner.source(&format!("deviceNodes[{at}]"));
            let device = node::plan(node, &source, self.facts, self.host)?;
            let rule = node::rule(node, &device);
            self.push(source.clone(), Change::SetDevice(device));
            if let Some(rule) = rule {
                self.push(source, Change::AllowDevice(rule));
            }
        }
        self.add_each(owner, "netDevices", net_devices, Change::SetNetDevice);
        self.add_each(owner, "mounts", mounts, Change::SetMount);
        self.add_each(owner, "hooks", hooks, Change::AddHook);
        if let Some(rdt) = intel_rdt {
            self.push(owner.source("intelRdt"), Change::SetIntelRdt(rdt.clone()));
        }
        for (at, gid) in additional_gids.iter().enumerate() {
            // Go passes over the root group; a spec cannot hand it out.
            if *gid != 0 {
                let source = owner.source(&format!("additionalGids[{at}]"));
                self.push(source, Change::AddGid(*gid));
            }
        }
        Ok(())
    }

    fn add_each<T: Clone>(
        &mut self,
        owner: &Owner,
        field: &str,
        items: &[T],
        change: impl Fn(T) -> Change,
    ) {
        for (at, item) in items.iter().enumerate() {
            let source = owner.source(&format!("{field}[{at}]"));
            self.push(source, change(item.clone()));
        }
    }

    fn push(&mut self, source: Source, change: Change) {
        self.steps.push(Step { source, change });
    }
}
