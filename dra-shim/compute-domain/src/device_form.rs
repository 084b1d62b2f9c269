//! Decides whether the node's device is published as exclusive or as shared, and drains
//! it when sharing is switched off.
//!
//! ```text
//! setting many:  marker written ──► Shared; the marker is written again if it is missing
//! setting one:   no marker, no record of a share ──► Exclusive
//!                no marker, a record of a share ──► marker written ─┐
//!                marker ◄───────────────────────────────────────────┘
//!                  └──► Draining ──► no claim here is recorded with the device or
//!                       allocated it ──► marker removed ──► Exclusive
//! ```
//!
//! The scheduler allocates an exclusive device to a claim even if other claims have shares of it
//! (kubernetes#140797). So a shared device stays published as shared, with a taint that keeps new claims
//! away, until no claim holds it. The marker is a file beside the checkpoint, because slices do not
//! survive a restart of kubelet, and records do not survive a reboot. It is written before the device
//! is published as shared, and removed while the taint still keeps claims away.
//!
//! The marker may be lost, with the directory or by hand. Without it the records decide, once the
//! checkpoint is open. While the checkpoint cannot be opened, or is damaged and not rebuilt, the slice
//! is not changed; if kubelet has removed it, it is not published again. That costs no claim, since none
//! could be prepared. The rest of a damaged checkpoint is enough to find a share. A share goes undetected
//! only if marker and records are both lost (a reboot or a new directory, and no CDI specs).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::Sharing;
use compute_domain_node::{
    NodeClaims, SHARED_MARKER, SharedMarker, records_node_device, records_share,
};
use daemon_runtime::{Events, Heartbeat, ReadinessCondition};
use dra_checkpoint::Damage;
use dra_common::{error_chain, with_hint};
use durable_file::{Dir as _, OsDir};
use k8s_openapi::api::core::v1::ObjectReference;
use plugin_parts::{DATA_MODE, PodLookup, UnsupportedFields};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::channel_devices::SharedClaims;
use crate::node_device::NodeDeviceLookup;

/// Mode of the marker; only the plugin and `cdi-gen doctor` read it.
const MARKER_MODE: u32 = 0o600;

/// Pause after a failed access to the marker.
const DISK_PAUSE: Duration = Duration::from_secs(2);

/// Pause between two checks that the marker exists.
const MARKER_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Pause between two checks of the records, which are in memory.
const RECORDS_PAUSE: Duration = Duration::from_secs(5);

/// How long the taint is published before the plugin looks claims up: by then, a scheduler that
/// had not seen the taint has written its allocations. Up to twice as long at random, so that
/// nodes do not send their requests together.
const TAINTED_FOR: Duration = Duration::from_secs(60);

/// Limit of the pauses between further look-ups, which double.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How the device is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceForm {
    /// The previous form is not known yet.
    Undecided,
    /// For one claim at a time.
    Exclusive,
    /// For as many claims as it has slots.
    Shared { slots: u32 },
    /// Like shared, with a taint that keeps new claims away.
    Draining { slots: u32 },
}

/// Decides on the form of the device and publishes it in `form`.
pub(crate) struct DeviceFormTask {
    pub(crate) sharing: Sharing,
    pub(crate) data_dir: PathBuf,
    pub(crate) shared_claims: SharedClaims,
    pub(crate) node_device: NodeDeviceLookup,
    pub(crate) pods: PodLookup,
    pub(crate) form: watch::Sender<DeviceForm>,
    /// Fields that the API server has dropped, which the marker records for `cdi-gen doctor`.
    pub(crate) unsupported_fields: watch::Receiver<UnsupportedFields>,
    /// Met if the last access to the marker succeeded.
    pub(crate) marker_ready: ReadinessCondition,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
}

// === impl DeviceFormTask ===

impl DeviceFormTask {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        // Keeps the heartbeat: dropping it would report this task as dead.
        if shutdown.run_until_cancelled(self.decide()).await.is_some() {
            shutdown.cancelled().await;
        }
    }

    async fn decide(&self) {
        match self.sharing {
            Sharing::Many { slots } => self.share(slots).await,
            Sharing::One => {
                if let Some(slots) = self.shared_before().await {
                    self.drain(slots).await;
                }
                self.form.send_replace(DeviceForm::Exclusive);
                self.heartbeat.idle();
            }
        }
    }

    /// Publishes the device as shared, and keeps its marker written, until shutdown.
    async fn share(&self, slots: u32) {
        let mut unsupported_fields = self.unsupported_fields.clone();
        loop {
            let is_dropped = unsupported_fields.borrow_and_update().sharing;
            self.mark(SharedMarker { slots, is_dropped }).await;
            let shared = DeviceForm::Shared { slots };
            self.form
                .send_if_modified(|form| std::mem::replace(form, shared) != shared);
            self.heartbeat.idle();
            tokio::select! {
                () = sleep(MARKER_CHECK_INTERVAL) => {}
                Ok(()) = unsupported_fields.changed() => {}
            }
        }
    }

    /// The slots of the device if it was shared. Then the marker exists on return.
    async fn shared_before(&self) -> Option<u32> {
        let read = |dir: &OsDir| dir.read(SHARED_MARKER);
        let marker = self
            .on_disk(
                "cannot read the file that records that the device is shared",
                read,
            )
            .await;
        if let Some(marker) = marker {
            return Some(SharedMarker::decode(&marker).slots);
        }
        if !self.records_share().await {
            return None;
        }
        warn!(
            "claims share the device, but the marker {SHARED_MARKER} is missing; writing it again"
        );
        // New claims are kept away, so any number of slots that the API server accepts will do.
        let marker = SharedMarker::decode(&[]);
        self.mark(marker).await;
        Some(marker.slots)
    }

    /// Whether a recorded claim shares the device. Waits until the records are known.
    async fn records_share(&self) -> bool {
        loop {
            self.heartbeat.idle();
            let claims = self.shared_claims.opened().await;
            self.heartbeat.beat();
            if let Some(found) = records_share(&claims.view()) {
                return found;
            }
            self.pause(RECORDS_PAUSE).await;
        }
    }

    async fn mark(&self, marker: SharedMarker) {
        let content = marker.encode();
        let mark = move |dir: &OsDir| dir.ensure(SHARED_MARKER, content.as_bytes(), MARKER_MODE);
        self.on_disk("cannot mark the device as shared", mark).await;
    }

    /// Drains the device: returns when no claim holds it.
    // req: CHANNEL-5
    async fn drain(&self, slots: u32) {
        info!(
            slots,
            "device is draining; new claims wait until no claim holds the device"
        );
        let note = "device is draining: new claims wait until no claim holds the device; after that, only one claim at a time can have the device";
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
                    warn!(
                        error,
                        "cannot check whether claims hold the device; retrying"
                    );
                }
            }
        }
        let remove = |dir: &OsDir| dir.remove(SHARED_MARKER);
        self.on_disk(
            "cannot remove the file that records that the device is shared",
            remove,
        )
        .await;
        let note = "device is drained: from now on, only one claim at a time can have the device";
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

    /// Whether a recorded claim holds the device; true while the records are not known.
    fn is_recorded(&self) -> bool {
        let knows = |claims: &Arc<NodeClaims>| claims.damage() == Damage::None;
        match self.shared_claims.get() {
            Ok(claims) if knows(&claims) => records_node_device(&claims.view()),
            _ => true,
        }
    }

    /// Whether a claim is allocated the device. Checks the claims of the node's pods and those from
    /// the controller's templates, whose pods may not be bound yet.
    async fn is_allocated(&self) -> Result<bool, kube::Error> {
        let names: BTreeSet<_> = self.pods.claims_here().await?;
        for (namespace, name) in names {
            self.heartbeat.beat();
            if self.node_device.is_of(&namespace, &name).await? {
                return Ok(true);
            }
        }
        self.heartbeat.beat();
        self.node_device.is_of_any_labelled().await
    }

    /// Repeats an access to the directory of the checkpoint until it succeeds.
    async fn on_disk<T: Send + 'static>(
        &self,
        failure: &'static str,
        access: impl Fn(&OsDir) -> Result<T, durable_file::Error> + Send + Sync + 'static,
    ) -> T {
        let access = Arc::new(access);
        let mut reported = false;
        loop {
            self.heartbeat.beat();
            let (path, access) = (self.data_dir.clone(), Arc::clone(&access));
            let tried = spawn_blocking(move || access(&OsDir::create(path, DATA_MODE)?)).await;
            match tried {
                Ok(Ok(value)) => {
                    self.marker_ready.set_met();
                    return value;
                }
                Ok(Err(error)) => {
                    let reason = format!("{failure}: {}", error_chain(&error));
                    let reason = with_hint(&reason, error.hint());
                    self.marker_ready.set_unmet(&reason);
                    if !std::mem::replace(&mut reported, true) {
                        self.events.warning(
                            &self.node,
                            "DeviceMarkerNotUsable",
                            "Publish",
                            &reason,
                        );
                    }
                }
                // The panic hook has logged it.
                Err(_) => {}
            }
            self.pause(DISK_PAUSE).await;
        }
    }
}

#[cfg(test)]
#[path = "device_form_tests.rs"]
mod tests;
