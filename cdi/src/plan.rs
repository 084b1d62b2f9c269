//! The changes of CDI devices to a container: planned first, then applied.
//!
//! ```text
//!  Registry ──┐
//!  names ─────┤
//!  facts ─────┼─► Plan::new ──► steps ──► Plan::apply ──► OciConfig
//!  HostNodes ─┘   may refuse              cannot fail
//! ```
//!
//! Go's library (`InjectDevices` in `pkg/cdi/cache.go`) edits the config while it
//! inspects the host, so that after an error in the second device the config has
//! the first.

mod apply;
mod device;
mod error;
mod host;
mod step;

use std::collections::BTreeSet;
use std::path::Path;

pub use error::PlanError;
pub use host::{HostDevice, HostNode, HostNodes, OsHost};
pub use step::{Change, Source, Step};

use self::step::Owner;
use crate::{ContainerEdits, ContainerFacts, OciConfig, QualifiedName, Registry, Resolved};

/// The steps that give a container its CDI devices.
///
/// Pure data: plans for the same container and host are equal. Each step names the
/// file and field that it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
}

// === impl Plan ===

impl Plan {
    /// Plans to give `container` the devices `names`.
    ///
    /// All or nothing: every name is resolved, every node of the host inspected and
    /// the structure of the config checked before there is a plan. The steps are
    /// in the order of `names`; a spec's own edits come once, before those of its
    /// first device. A repeated name has no effect.
    ///
    /// # Errors
    ///
    /// [`PlanError::Unresolved`] lists all names that do not resolve.
    // req: CDI-24, CDI-26
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

    /// Plans to give `container` edits that are in no CDI file, such as
    /// [`channel_edits`](crate::channel_edits). `origin` stands for the file in the steps.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), except for names.
    pub fn of_edits(
        edits: &ContainerEdits,
        origin: &Path,
        container: &impl OciConfig,
        host: &dyn HostNodes,
    ) -> Result<Self, PlanError> {
        let mut planner = Planner {
            facts: container.facts().map_err(PlanError::Config)?,
            host,
            steps: Vec::new(),
        };
        planner.add(&Owner::origin(origin), edits)?;
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
    /// `config` must be the one that the plan was made for. In another one, nodes
    /// get the owner from the first config, and a section that
    /// [`OciConfig::facts`] would refuse is replaced.
    pub fn apply(&self, config: &mut impl OciConfig) {
        apply::apply(&self.steps, config);
    }
}

/// The devices of `names`, in order and without repetitions.
// req: CDI-20
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
    /// Adds the steps of `edits`, in the order in which Go's library applies the
    /// kinds of edits.
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
        for (index, node) in device_nodes.iter().enumerate() {
            let source = owner.source(&format!("deviceNodes[{index}]"));
            let device = device::fill_in(node, &source, self.facts, self.host)?;
            let rule = device::rule(node, &device);
            self.push(source.clone(), Change::SetDevice(device));
            if let Some(rule) = rule {
                self.push(source, Change::AllowDevice(rule));
            }
        }
        self.add_each(owner, "netDevices", net_devices, Change::SetNetDevice);
        self.add_each(owner, "mounts", mounts, Change::SetMount);
        self.add_each(owner, "hooks", hooks, Change::AddHook);
        if let Some(rdt) = intel_rdt {
            self.push(
                owner.source("intelRdt"),
                Change::SetIntelRdt(rdt.as_ref().clone()),
            );
        }
        for (index, gid) in additional_gids.iter().enumerate() {
            // Go ignores the root group, so that no spec can grant it.
            if *gid != 0 {
                let source = owner.source(&format!("additionalGids[{index}]"));
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
        for (index, item) in items.iter().enumerate() {
            let source = owner.source(&format!("{field}[{index}]"));
            self.push(source, change(item.clone()));
        }
    }

    fn push(&mut self, source: Source, change: Change) {
        self.steps.push(Step { source, change });
    }
}
