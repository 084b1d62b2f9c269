//! The NRI plugin.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use imex_cdi::{
    ChannelId, NriContainer, NriRelease, OsHost, Plan, channel_edits, read_channel_major,
};
use nri_plugin::api::{Container, ContainerAdjustment, ContainerUpdate, PodSandbox};
use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Runtime};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::allowed::Allowed;
use crate::claims::claim_with;
use crate::records::{RECORDS_DIR, Record, Records};
use crate::refused::Refused;
use crate::request::request;

/// What of the node is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The list of drivers' majors.
    pub proc_devices: PathBuf,
    /// The kubelet plugin's checkpoint. It need not exist.
    pub checkpoint: PathBuf,
}

/// Gives pods the channels that their annotations ask for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Annotations {
    paths: Paths,
    records: Records,
    shared: Arc<Mutex<Shared>>,
}

/// What a connection may change.
#[derive(Debug, Clone)]
struct Shared {
    allowed: Allowed,
    release: NriRelease,
}

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
        }
    }

    fn shared(&self) -> Shared {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clone()
    }

    /// The adjustment with the channel, once it is recorded. Blocks on the disk.
    fn give(
        &self,
        channel: ChannelId,
        record: &Record,
        container: &Container,
    ) -> Result<ContainerAdjustment, Refused> {
        let major = read_channel_major(&self.paths.proc_devices).map_err(Refused::NoChannels)?;
        self.records.hold(record, || {
            let claim = claim_with(&self.paths.checkpoint, channel)?;
            claim.map_or(Ok(()), |claim| Err(Refused::Claimed { channel, claim }))
        })?;
        let edits = channel_edits(channel, major);
        let mut target = NriContainer::new(container);
        let plan = Plan::of_edits(&edits, RECORDS_DIR.as_ref(), &target, &OsHost::new("/"));
        let plan = plan.map_err(|error| Refused::Plan {
            channel,
            reason: error.to_string(),
        })?;
        plan.apply(&mut target);
        let answer = target.into_adjustment(self.shared().release);
        for loss in answer.losses {
            warn!(container = container.id, %loss, "NRI cannot say it");
        }
        Ok(answer.adjustment)
    }
}

impl Plugin for Annotations {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER | Events::REMOVE_POD_SANDBOX
    }

    /// A text from the runtime is the node's list.
    async fn configure(&self, _: &Context, config: &str, runtime: &Runtime) -> Result<(), Refusal> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !config.trim().is_empty() {
            shared.allowed = config.parse().map_err(Refusal::new)?;
        }
        shared.release = NriRelease::of(runtime);
        info!(runtime.name, runtime.version, "connected");
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Context,
        pods: &[PodSandbox],
        _: &[Container],
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        let sandboxes: BTreeSet<String> = pods.iter().map(|pod| pod.id.clone()).collect();
        let records = self.records.clone();
        let kept = spawn_blocking(move || {
            records.keep_only(&sandboxes.iter().map(String::as_str).collect())
        });
        match kept.await {
            Ok(Ok(gone)) => {
                for record in gone {
                    info!(
                        record.namespace,
                        record.name, record.channel, "the pod is gone"
                    );
                }
            }
            // The next connection tries again; meanwhile a channel stays with its namespace.
            Ok(Err(error)) => warn!(%error, "records of pods that are gone stay"),
            Err(error) => warn!(%error, "records of pods that are gone stay"),
        }
        Ok(Vec::new())
    }

    async fn create_container(
        &self,
        _: &Context,
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
        let record = Record {
            sandbox: pod.id.clone(),
            pod_uid: pod.uid.clone(),
            namespace,
            name: pod.name.clone(),
            channel: channel.get(),
        };
        let (this, container) = (self.clone(), container.clone());
        let given = spawn_blocking(move || this.give(channel, &record, &container)).await;
        let given = given.map_err(Refusal::new)?;
        given.map(Creation::from).map_err(Refusal::new)
    }

    async fn remove_pod_sandbox(&self, _: &Context, pod: &PodSandbox) -> Result<(), Refusal> {
        let (records, sandbox) = (self.records.clone(), pod.id.clone());
        let released = spawn_blocking(move || records.release(&sandbox)).await;
        if let Ok(Err(error)) = released {
            // The next connection removes it.
            warn!(%error, pod = pod.id, "the pod's record stays");
        }
        Ok(())
    }
}
