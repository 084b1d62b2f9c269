//! The NRI plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compute_domain_node::error_chain;
use imex_cdi::{
    CHANNEL_DIR, ChannelId, DriverParams, NriContainer, NriRelease, OsHost, Plan, channel_edits,
    read_channel_major,
};
use nri_plugin::api::{Container, ContainerAdjustment, ContainerUpdate, PodSandbox};
use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Runtime};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::allowed::Allowed;
use crate::claims::claim_with;
use crate::record::{RECORDS_DIR, Record};
use crate::records::{Records, Settled};
use crate::refused::Refused;
use crate::request::{ANNOTATION, request};

/// What of the node is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The list of drivers' majors.
    pub proc_devices: PathBuf,
    /// The driver's options: how many channels it has. Where it cannot be read, that is not
    /// looked at.
    pub driver_params: PathBuf,
    /// The kubelet plugin's checkpoint. It need not exist.
    pub checkpoint: PathBuf,
}

/// Gives pods the channels that their annotations ask for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Annotations {
    paths: Paths,
    records: Records,
    shared: Arc<Mutex<Shared>>,
    containers: Arc<Mutex<Containers>>,
}

/// What a connection may change.
#[derive(Debug, Clone)]
struct Shared {
    allowed: Allowed,
    release: NriRelease,
}

/// The ids of the containers that the runtime has told of, by sandbox with the annotation.
type Containers = BTreeMap<String, BTreeSet<String>>;

// === impl Annotations ===

impl Annotations {
    /// With the node's list, which a configuration from the runtime replaces.
    pub fn new(allowed: Allowed, paths: Paths, records: Records) -> Self {
        let release = NriRelease::Nri0_3;
        let shared = Arc::new(Mutex::new(Shared { allowed, release }));
        Self {
            paths,
            records,
            shared,
            containers: Arc::default(),
        }
    }

    fn containers(&self) -> MutexGuard<'_, Containers> {
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod has no container any more: its channel is free.
    async fn release(&self, pod: &PodSandbox) {
        let (records, sandbox) = (self.records.clone(), pod.id.clone());
        let released = spawn_blocking(move || records.release(&sandbox)).await;
        if let Ok(Err(error)) = released {
            // The next connection removes it.
            warn!(
                error = error_chain(&error),
                pod.namespace, pod.name, "the pod's record stays"
            );
        }
    }

    fn shared(&self) -> Shared {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clone()
    }

    /// The adjustment with the channel, once it is recorded. Blocks on the disk. What can fail
    /// comes before the record.
    // req: NRI-18
    fn give(
        &self,
        context: &Context,
        channel: ChannelId,
        record: &Record,
        container: &Container,
    ) -> Result<ContainerAdjustment, Refused> {
        let major = read_channel_major(&self.paths.proc_devices).map_err(Refused::NoChannels)?;
        let params = DriverParams::read(&self.paths.driver_params).ok();
        let count = params.and_then(|params| params.imex_channel_count);
        if let Some(count) = count.filter(|count| channel.get() >= *count) {
            return Err(Refused::BeyondDriver { channel, count });
        }
        let edits = channel_edits(channel, major);
        let mut target = NriContainer::new(container);
        let plan = Plan::of_edits(&edits, RECORDS_DIR.as_ref(), &target, &OsHost::new("/"));
        let plan = plan.map_err(|error| Refused::Plan {
            channel,
            reason: error.to_string(),
        })?;
        self.records.hold(record, || {
            // The pod may be gone by now, and its record would stay.
            if context.cancellation().is_cancelled() {
                return Err(Refused::Late);
            }
            let claim = claim_with(&self.paths.checkpoint, channel)?;
            claim.map_or(Ok(()), |claim| Err(Refused::Claimed { channel, claim }))
        })?;
        plan.apply(&mut target);
        let answer = target.into_adjustment(self.shared().release);
        for loss in answer.losses {
            warn!(container = container.id, %loss, "NRI cannot say it");
        }
        Ok(answer.adjustment)
    }

    /// The records of pods that run with their channel. Tells of containers that were created
    /// without it while the plugin was away.
    fn running(pods: &[PodSandbox], containers: &[Container]) -> Vec<Record> {
        let pods: BTreeMap<_, _> = pods.iter().map(|pod| (&pod.id, pod)).collect();
        let mut running = Vec::new();
        for container in containers {
            let Some(pod) = pods.get(&container.pod_sandbox_id) else {
                continue;
            };
            let Ok(Some(channel)) = request(&pod.annotations) else {
                continue;
            };
            let node = format!("{CHANNEL_DIR}/channel{channel}");
            let devices = container.linux.iter().flat_map(|linux| &linux.devices);
            if devices.into_iter().any(|device| device.path == node) {
                running.push(record_of(pod, channel));
            } else {
                warn!(
                    pod.namespace,
                    pod.name,
                    container = container.name,
                    "asks for IMEX channel {channel} by {ANNOTATION}, and was created without it while this plugin was away; delete the pod, its successor gets it"
                );
            }
        }
        running.sort_by(|a, b| a.sandbox.cmp(&b.sandbox));
        running.dedup();
        running
    }
}

fn ids(containers: &[Container], of: &[Record]) -> Containers {
    let mut ids = Containers::new();
    for record in of {
        let of_pod = containers
            .iter()
            .filter(|it| it.pod_sandbox_id == record.sandbox);
        ids.insert(
            record.sandbox.clone(),
            of_pod.map(|it| it.id.clone()).collect(),
        );
    }
    ids
}

fn record_of(pod: &PodSandbox, channel: ChannelId) -> Record {
    Record {
        sandbox: pod.id.clone(),
        pod_uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        channel: channel.get(),
    }
}

fn log_settled(settled: Settled) {
    for record in settled.written {
        let Record {
            namespace,
            name,
            channel,
            ..
        } = record;
        warn!(
            namespace,
            name,
            channel,
            "the pod runs with the channel, and its record was missing or another; it is written again"
        );
    }
    for file in settled.damaged {
        warn!(file, "was no record, and is removed");
    }
    for record in settled.gone {
        let Record {
            namespace,
            name,
            channel,
            ..
        } = record;
        info!(namespace, name, channel, "the pod is gone");
    }
}

impl Plugin for Annotations {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER | Events::REMOVE_CONTAINER | Events::REMOVE_POD_SANDBOX
    }

    /// A text from the runtime is the node's list.
    async fn configure(&self, _: &Context, config: &str, runtime: &Runtime) -> Result<(), Refusal> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !config.trim().is_empty() {
            shared.allowed = config.parse().map_err(Refusal::new)?;
        }
        shared.release = NriRelease::of(runtime);
        info!(runtime.name, runtime.version, "connected");
        if shared.allowed.is_empty() {
            warn!("no namespace may have a channel: every pod with the annotation is refused");
        }
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Context,
        pods: &[PodSandbox],
        containers: &[Container],
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        let running = Self::running(pods, containers);
        *self.containers() = ids(containers, &running);
        let records = self.records.clone();
        let settled = spawn_blocking(move || records.settle(&running));
        match settled.await {
            Ok(Ok(settled)) => log_settled(settled),
            // The next connection tries again; meanwhile a channel stays with its namespace.
            Ok(Err(error)) => {
                warn!(
                    error = error_chain(&error),
                    "the records are not yet those of the pods that run"
                );
            }
            Err(error) => warn!(%error, "the records are not yet those of the pods that run"),
        }
        Ok(Vec::new())
    }

    async fn create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        let Some(channel) = request(&pod.annotations).map_err(Refusal::new)? else {
            return Ok(Creation::default());
        };
        let namespace = pod.namespace.clone();
        if !self.shared().allowed.permits(&namespace, channel) {
            return Err(Refusal::new(Refused::NotAllowed { channel, namespace }));
        }
        let record = record_of(pod, channel);
        // Before the record, so that one that is written has a container whose end is noticed.
        self.containers()
            .entry(pod.id.clone())
            .or_default()
            .insert(container.id.clone());
        let (this, context, asked) = (self.clone(), context.clone(), container.clone());
        let given = spawn_blocking(move || this.give(&context, channel, &record, &asked));
        let given = given.await.map_err(Refusal::new)?;
        if given.is_err() {
            // It has nothing. containerd tells of its removal, which is not that of a container
            // with the channel; other runtimes may not.
            if let Some(of_pod) = self.containers().get_mut(&pod.id) {
                of_pod.remove(&container.id);
            }
        }
        given
            .map(Creation::from)
            .map_err(|refused| Refusal::new(error_chain(&refused)))
    }

    async fn remove_container(
        &self,
        _: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        let was_last = {
            let mut containers = self.containers();
            let of_pod = containers.get_mut(&pod.id);
            of_pod.is_some_and(|ids| ids.remove(&container.id) && ids.is_empty())
        };
        if was_last {
            self.release(pod).await;
        }
        Ok(())
    }

    async fn remove_pod_sandbox(&self, _: &Context, pod: &PodSandbox) -> Result<(), Refusal> {
        self.containers().remove(&pod.id);
        self.release(pod).await;
        Ok(())
    }
}
