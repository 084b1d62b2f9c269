//! Whether the node's device is published for one claim or for many, and the way back
//! from many to one.
//!
//! ```text
//! setting many:  marker written ──► Shared
//! setting one:   no marker ──► Exclusive
//!                marker ──► Draining ──► nothing of the device is recorded or
//!                           allocated here ──► marker removed ──► Exclusive
//! ```
//!
//! The scheduler gives a device that is published as exclusive to a claim although others have
//! shares of it (kubernetes#140797). So a device that was shared stays so, with a taint that
//! keeps new claims away, until nobody has it. The marker is a file beside the checkpoint: slices
//! do not outlive a restart of kubelet, and records no reboot. It is written before the
//! device is published as shared, and removed while the taint still keeps claims away.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::Sharing;
use compute_domain_node::NodeClaims;
use dra_checkpoint::Damage;
use durable_file::{Dir as _, OsDir};
use imex_runtime::{Events, Heartbeat, error_chain};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::checkpoint::DATA_MODE;
use crate::claim_lookup::ClaimLookup;
use crate::pod_lookup::PodLookup;
use crate::shared_claims::SharedClaims;

/// The marker: its content is the number of slots.
const MARKER: &str = "device-is-shared";

/// Mode of the marker, which tells nobody anything.
const MARKER_MODE: u32 = 0o600;

/// Pause after a failed access to the marker.
const DISK_PAUSE: Duration = Duration::from_secs(2);

/// Pause between two looks at the records, which are in memory.
const RECORDS_PAUSE: Duration = Duration::from_secs(5);

/// How long the taint is published before the API server is asked for claims: a scheduler that
/// had not seen it has written its allocations by then. Up to twice as long, so that nodes do
/// not ask together.
const TAINTED_FOR: Duration = Duration::from_secs(60);

/// The longest of the pauses between further questions, which double.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How the device is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceForm {
    /// It is not known yet what it was before.
    Undecided,
    /// For one claim at a time.
    Exclusive,
    /// For as many claims as it has slots.
    Shared { slots: u32 },
    /// As shared, and new claims are kept away.
    Draining { slots: u32 },
}

/// Decides on the form.
pub(crate) struct DeviceFormTask {
    pub(crate) sharing: Sharing,
    pub(crate) data_dir: PathBuf,
    pub(crate) shared_claims: SharedClaims,
    pub(crate) claims: ClaimLookup,
    pub(crate) pods: PodLookup,
    pub(crate) form: watch::Sender<DeviceForm>,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) events: Events,
    /// The node: what events are about.
    pub(crate) node: ObjectReference,
}

// === impl DeviceFormTask ===

impl DeviceFormTask {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        // A heartbeat that is dropped is that of a task that has died.
        if shutdown.run_until_cancelled(self.decide()).await.is_some() {
            shutdown.cancelled().await;
        }
    }

    async fn decide(&self) {
        match self.sharing {
            Sharing::Many { slots } => {
                let content = slots.to_string();
                let mark = move |dir: &OsDir| dir.ensure(MARKER, content.as_bytes(), MARKER_MODE);
                self.on_disk("the device cannot be marked as shared", mark)
                    .await;
                self.form.send_replace(DeviceForm::Shared { slots });
            }
            Sharing::One => {
                let read = |dir: &OsDir| dir.read(MARKER);
                let marker = self
                    .on_disk("it cannot be found out whether the device was shared", read)
                    .await;
                if let Some(marker) = marker {
                    self.drain(slots_in(&marker)).await;
                }
                self.form.send_replace(DeviceForm::Exclusive);
            }
        }
        self.heartbeat.idle();
    }

    /// Returns once nobody has the device any more.
    async fn drain(&self, slots: u32) {
        let note = "the device was shared: new claims are kept away until nobody has it, then one claim has it at a time";
        self.events
            .normal(&self.node, "SharingEnds", "Publish", note);
        self.form.send_replace(DeviceForm::Draining { slots });
        let mut pause = TAINTED_FOR;
        loop {
            self.until_unrecorded().await;
            self.pause(pause.mul_f64(1.0 + fastrand::f64())).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
            match self.is_allocated().await {
                Ok(false) if !self.is_recorded() => break,
                Ok(_) => {}
                Err(error) => {
                    let error = error_chain(&error);
                    warn!(error, "cannot find out whether claims share the device");
                }
            }
        }
        let remove = |dir: &OsDir| dir.remove(MARKER);
        self.on_disk("the device cannot be marked as not shared", remove)
            .await;
        let note = "nobody has the device any more: one claim has it at a time";
        self.events
            .normal(&self.node, "SharingEnded", "Publish", note);
    }

    async fn until_unrecorded(&self) {
        while self.is_recorded() {
            self.pause(RECORDS_PAUSE).await;
        }
    }

    async fn pause(&self, pause: Duration) {
        self.heartbeat.idle();
        sleep(pause).await;
        self.heartbeat.beat();
    }

    /// Whether a record has the device, as far as the records are known.
    fn is_recorded(&self) -> bool {
        let knows = |claims: &Arc<NodeClaims>| claims.damage() == Damage::None;
        match self.shared_claims.get() {
            Ok(claims) if knows(&claims) => claims.records_node_device(),
            _ => true,
        }
    }

    /// Whether a claim is allocated the device: those of the node's pods, and those of the
    /// controller's templates, whose pod may not be bound yet.
    async fn is_allocated(&self) -> Result<bool, kube::Error> {
        let names: BTreeSet<_> = self.pods.claims_here().await?;
        for (namespace, name) in names {
            self.heartbeat.beat();
            if self.claims.has_node_device(&namespace, &name).await? {
                return Ok(true);
            }
        }
        self.heartbeat.beat();
        self.claims.any_labelled_has_node_device().await
    }

    /// Repeats an access to the directory of the checkpoint until it succeeds.
    async fn on_disk<T: Send + 'static>(
        &self,
        failure: &'static str,
        access: impl Fn(&OsDir) -> Result<T, durable_file::Error> + Send + Sync + 'static,
    ) -> T {
        let access = Arc::new(access);
        let mut told = false;
        loop {
            self.heartbeat.beat();
            let (path, access) = (self.data_dir.clone(), Arc::clone(&access));
            let tried = spawn_blocking(move || access(&OsDir::create(path, DATA_MODE)?)).await;
            match tried {
                Ok(Ok(value)) => return value,
                Ok(Err(error)) if !std::mem::replace(&mut told, true) => {
                    let error = error_chain(&error);
                    warn!(error, "{failure}: nothing is published until it can");
                }
                // A panic was logged by the hook.
                _ => {}
            }
            self.pause(DISK_PAUSE).await;
        }
    }
}

/// New claims are kept away, so the number matters to nobody but the API server.
fn slots_in(marker: &[u8]) -> u32 {
    let text = std::str::from_utf8(marker).unwrap_or_default();
    let slots = text.trim().parse().unwrap_or(1);
    info!(slots, "the device was shared");
    slots
}

#[cfg(test)]
#[path = "device_form_tests.rs"]
mod tests;
