//! The NRI guard: checks every container before it is created and before it is started. A container
//! that requests an IMEX channel without a claim gets a warning event or is refused.
//!
//! ```text
//! container ──► imex_cdi::requested_channels ──► NodeClaims::channel_owner ──► allowed
//!   (view)       ▲ nothing: allowed            │ OtherPods       └─► event (warn), refused (enforce)
//!                │                             ▼
//!          host_devices: names that     pod_claims: one GET of the pod, once
//!          the host's CDI specs define
//! ```
//!
//! Both calls are needed. The first one can refuse cleanly. The second one sees what later NRI plugins
//! have added, and the devices of CDI names that plugins have requested. CRI-O starts a container even
//! if the second call refuses it, so there that call only warns.
//!
//! Containers that are running when the guard connects are reported, never stopped.

mod finding;
mod host_devices;
mod mode;
mod pod_claims;
mod reports;
#[cfg(test)]
mod tests;
mod view;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compute_domain_node::{
    ChannelOwner, NodeClaims, channel_owner, channels_to_explain, sentence, unexplained,
};
use imex_cdi::{ChannelId, DefinedNodes, RequestedChannels, UnresolvedNames, requested_channels};
use nri_plugin::api::{Container, ContainerUpdate, PodSandbox};
use nri_plugin::{Context, Creation, Events, Late, Plugin, Refusal, Runtime, Service, StartError};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tracing::info;

use self::finding::{ContainerOutcome, Finding, Moment};
use crate::channel_devices::SharedClaims;
use crate::monitor::HardwareMonitor;

pub(crate) use host_devices::HostDevices;
pub(crate) use mode::Mode;
pub(crate) use pod_claims::PodClaims;
pub(crate) use reports::{Connection, Reports};

/// NRI index: after plugins that adjust containers (10, 50 by convention), before those that only
/// log (99).
const INDEX: u8 = 90;
const NAME: &str = "imex-dra";

/// The runtime that ignores a refused start and only logs it: CRI-O up to 1.34.
const STARTS_ANYWAY: &str = "cri-o";

/// Time limit of a look-up for a container that is being created. The runtime disconnects a plugin
/// that does not answer within 2 s.
const LOOK_UP_LIMIT: Duration = Duration::from_millis(1200);
/// Time limit of a look-up for a running container.
const CHECK_RUNNING_LIMIT: Duration = Duration::from_secs(30);

/// The NRI guard. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NriGuard {
    pub(crate) mode: Mode,
    /// Namespaces whose pods are ignored.
    pub(crate) exempt: Arc<BTreeSet<String>>,
    pub(crate) shared_claims: SharedClaims,
    pub(crate) hardware: Arc<HardwareMonitor>,
    pub(crate) pods: PodClaims,
    pub(crate) host_devices: HostDevices,
    pub(crate) reports: Reports,
    /// Whether the runtime starts a container although a plugin has refused the start.
    pub(crate) starts_anyway: Arc<AtomicBool>,
}

/// The devices that a container requests.
struct ContainerRequests {
    channels: RequestedChannels,
    /// Why it may request more.
    open: Option<String>,
}

// === impl ContainerRequests ===

impl ContainerRequests {
    fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.open.is_none()
    }
}

// === impl NriGuard ===

impl NriGuard {
    /// Connects to the runtime at `socket`, now or as soon as it listens.
    ///
    /// # Errors
    /// See [`StartError`].
    pub(crate) fn start(self, socket: &Path) -> Result<Service, StartError> {
        let late = match self.mode {
            Mode::Enforce => Late::Refuse,
            Mode::Off | Mode::Warn => Late::Allow,
        };
        let builder = Service::builder(INDEX, NAME).socket(socket).on_late(late);
        builder.start(self)
    }

    /// CDI names whose kind does not show which devices they are.
    fn names(&self, pod: &PodSandbox, container: &Container) -> UnresolvedNames {
        let names = RefCell::new(UnresolvedNames::default());
        requested_channels(
            &view::view(pod, container),
            self.hardware.last_major(),
            |name| {
                names.borrow_mut().add(name);
                None
            },
        );
        names.into_inner()
    }

    fn requested_devices(
        &self,
        pod: &PodSandbox,
        container: &Container,
        names: &UnresolvedNames,
        found: &DefinedNodes,
    ) -> ContainerRequests {
        let (view, major) = (view::view(pod, container), self.hardware.last_major());
        ContainerRequests {
            channels: requested_channels(&view, major, |name| found.nodes(name)),
            open: found.open(names).map(str::to_owned),
        }
    }

    // req: NRI-12, NRI-16
    async fn check_container(
        &self,
        moment: Moment,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        let limit = LOOK_UP_LIMIT.min(context.remaining().mul_f32(0.75));
        let end = Instant::now() + limit;
        let names = self.names(pod, container);
        // Half of the time: the other half is for what the specs do not decide.
        let found = self.host_devices.look_up(&names, limit / 2).await;
        let requested_devices = self.requested_devices(pod, container, &names, &found);
        let limit = end.saturating_duration_since(Instant::now());
        match self
            .finding_of(moment, pod, container, &requested_devices, limit)
            .await
        {
            Some(Finding::Unexplained(reason)) if self.mode == Mode::Enforce => {
                Err(Refusal::new(reason))
            }
            Some(Finding::Unknown(reason)) if self.mode == Mode::Enforce => {
                Err(Refusal::new(format_args!(
                    "cannot check whether the container's pod has a claim for the requested IMEX channel: {reason}; kubelet retries"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks the container and reports the finding. `None`: nothing to check.
    // req: NRI-15
    async fn finding_of(
        &self,
        moment: Moment,
        pod: &PodSandbox,
        container: &Container,
        requested_devices: &ContainerRequests,
        limit: Duration,
    ) -> Option<Finding> {
        if requested_devices.is_empty() {
            return None;
        }
        if self.exempt.contains(&pod.namespace) {
            self.reports.exempt(moment);
            return None;
        }
        let finding = timeout(limit, self.find(pod, requested_devices, limit)).await;
        let finding = finding.unwrap_or_else(|_| {
            let waited = limit.as_secs_f32();
            Finding::Unknown(format!(
                "the checkpoint and the CDI specs were not read within {waited:.1} s (does \
                 another process hold the checkpoint's lock, or is the disk slow?)"
            ))
        });
        let starts_anyway = self.starts_anyway.load(Ordering::Relaxed);
        let end = match (moment, self.mode) {
            (Moment::Synchronize, _) => ContainerOutcome::Runs,
            (Moment::Start, Mode::Enforce) if starts_anyway => ContainerOutcome::StartsAnyway,
            (_, Mode::Enforce) => ContainerOutcome::Refused,
            (_, Mode::Off | Mode::Warn) => ContainerOutcome::LetThrough,
        };
        self.reports.finding(
            moment,
            pod,
            container,
            &requested_devices.channels,
            &finding,
            end,
        );
        Some(finding)
    }

    // req: NRI-13
    async fn find(
        &self,
        pod: &PodSandbox,
        requested_devices: &ContainerRequests,
        limit: Duration,
    ) -> Finding {
        let ContainerRequests {
            channels: requested_devices,
            open,
        } = requested_devices;
        let channels = channels_to_explain(requested_devices);
        let mut answers = BTreeMap::new();
        if !channels.is_empty() {
            // Less than the limit, so that the error is the reason, not a timeout.
            let opened = self.shared_claims.get_within(limit.mul_f32(0.8)).await;
            let claims = match opened {
                Ok(claims) => claims,
                Err(error) => return Finding::Unknown(error.message().to_owned()),
            };
            answers = match self.channel_owner(&claims, &channels, pod, limit).await {
                Ok(answers) => answers,
                Err(reason) => return Finding::Unknown(reason),
            };
        }
        let channel_owner = |id| answers.remove(&id).unwrap_or(ChannelOwner::Unclaimed);
        let found = unexplained(requested_devices, channel_owner);
        match open {
            _ if !found.is_empty() => {
                Finding::Unexplained(sentence(&found, requested_devices.every_device))
            }
            Some(reason) => {
                Finding::Unknown(format!("the container requests CDI devices, and {reason}"))
            }
            None => Finding::Explained,
        }
    }

    /// Returns the owners of the channels, according to this process and the API server. If these do not explain
    /// all channels, it reads the checkpoint again, since another instance may have written to it.
    async fn channel_owner(
        &self,
        claims: &Arc<NodeClaims>,
        channels: &BTreeSet<ChannelId>,
        pod: &PodSandbox,
        limit: Duration,
    ) -> Result<BTreeMap<ChannelId, ChannelOwner>, String> {
        let answers = self.current_owner(claims, channels, pod).await?;
        if answers.values().all(ChannelOwner::is_explained) {
            return Ok(answers);
        }
        let from_file = Arc::clone(claims);
        // If the lock is not free, the cached records are used.
        let _ = spawn_blocking(move || from_file.read_locked(limit, |_| ())).await;
        self.current_owner(claims, channels, pod).await
    }

    async fn current_owner(
        &self,
        claims: &NodeClaims,
        channels: &BTreeSet<ChannelId>,
        pod: &PodSandbox,
    ) -> Result<BTreeMap<ChannelId, ChannelOwner>, String> {
        let mut answers = BTreeMap::new();
        for &channel in channels {
            let channel_owner = channel_owner(&claims.view(), channel, &pod.namespace, &pod.uid);
            let mut channel_owner = channel_owner.map_err(|error| error.to_string())?;
            if let ChannelOwner::OtherPods(candidates) = &channel_owner {
                let is_pods = self.pods.any_is_of(pod, candidates, claims).await;
                if is_pods.map_err(|error| dra_common::error_chain(&error))? {
                    channel_owner = ChannelOwner::ThisPod;
                }
            }
            answers.insert(channel, channel_owner);
        }
        Ok(answers)
    }

    /// Checks running containers, as soon as the claims are known.
    // req: NRI-17
    async fn check_running(self, running: Vec<(PodSandbox, Container, UnresolvedNames)>) {
        self.shared_claims.opened().await;
        let mut names = UnresolvedNames::default();
        for (_, _, own) in &running {
            names.extend(own);
        }
        let found = self.host_devices.look_up(&names, CHECK_RUNNING_LIMIT).await;
        for (pod, container, names) in running {
            let requested_devices = self.requested_devices(&pod, &container, &names, &found);
            self.finding_of(
                Moment::Synchronize,
                &pod,
                &container,
                &requested_devices,
                CHECK_RUNNING_LIMIT,
            )
            .await;
        }
    }
}

impl Plugin for NriGuard {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER | Events::START_CONTAINER
    }

    // req: NRI-15, NRI-22
    async fn configure(
        &self,
        context: &Context,
        _: &str,
        runtime: &Runtime,
    ) -> Result<(), Refusal> {
        let (name, version) = (&runtime.name, &runtime.version);
        info!(runtime = %format_args!("{name} {version}"), "connected to the container runtime");
        self.starts_anyway
            .store(name == STARTS_ANYWAY, Ordering::Relaxed);
        // The runtime calls the guard for no container before this returns, and a container that is
        // refused at its start is not always retried. If the claims cannot be opened, the finding has the reason.
        let limit = context.remaining().mul_f32(0.75);
        let _ = self.shared_claims.get_within(limit).await;
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Context,
        pods: &[PodSandbox],
        containers: &[Container],
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        let pods: BTreeMap<_, _> = pods.iter().map(|pod| (&pod.id, pod)).collect();
        let mut running = Vec::new();
        for container in containers {
            if let Some(pod) = pods.get(&container.pod_sandbox_id) {
                let names = self.names(pod, container);
                let by_kind =
                    self.requested_devices(pod, container, &names, &DefinedNodes::default());
                if !names.is_empty() || !by_kind.is_empty() {
                    running.push(((*pod).clone(), container.clone(), names));
                }
            }
        }
        if !running.is_empty() {
            tokio::spawn(self.clone().check_running(running));
        }
        // After this answer, the runtime calls the guard for every container.
        info!(mode = %self.mode, "the NRI guard is active");
        Ok(Vec::new())
    }

    async fn create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        self.check_container(Moment::Create, context, pod, container)
            .await?;
        Ok(Creation::default())
    }

    async fn start_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.check_container(Moment::Start, context, pod, container)
            .await
    }
}
