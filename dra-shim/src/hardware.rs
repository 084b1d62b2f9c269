//! The node's hardware as it is now, and what follows from it: the slice, the
//! devices' health, readiness, an event per change.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use compute_domain_api::names::{
    self, DEVICE_ID_ATTRIBUTE, DEVICE_TYPE_ATTRIBUTE, DEVICE_TYPE_CHANNEL,
};
use compute_domain_node::World;
use dra_kubelet::{Desired, DeviceHealth, Health};
use imex_runtime::{Condition, Events, Readiness, StartError};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::resource::v1::{Device, DeviceAttribute};
use nvml_clique::{DriverRoot, Fabric, FabricWatch, NvmlProbe, Pending, Reading, WatchConfig};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The one channel that is published: without isolation every workload shares
/// it. Prepare uses the id of the allocated device, whichever it is.
const PUBLISHED_CHANNEL: u32 = 0;

/// How often the channel major is read anew: how late a driver that is loaded
/// or reloaded is noticed, against one read of a small file.
const MAJOR_EVERY: Duration = Duration::from_secs(2);

/// What is known of the hardware. [`look`](Self::look) never waits for NVML.
pub(crate) struct Hardware {
    proc_devices: PathBuf,
    library_seen: AtomicBool,
    changed: Notify,
    watch: OnceLock<FabricWatch>,
}

/// Where the consequences go.
pub(crate) struct Consequences {
    pub(crate) pool: String,
    pub(crate) desired: watch::Sender<Desired>,
    pub(crate) health: watch::Sender<Vec<DeviceHealth>>,
    pub(crate) fabric_ready: Condition,
    pub(crate) major_ready: Condition,
    pub(crate) events: Arc<Events>,
    pub(crate) node: ObjectReference,
}

impl Hardware {
    /// Starts to watch the driver below `driver_root`.
    pub(crate) fn watch(
        driver_root: PathBuf,
        proc_devices: PathBuf,
    ) -> Result<Arc<Self>, StartError> {
        let hardware = Arc::new(Self {
            proc_devices,
            library_seen: AtomicBool::new(false),
            changed: Notify::new(),
            watch: OnceLock::new(),
        });
        let noticed = Arc::downgrade(&hardware);
        let on_change = move |reading: &Reading| {
            if let Some(hardware) = noticed.upgrade() {
                hardware.notice(reading);
            }
        };
        let probe = NvmlProbe::new(DriverRoot::new(driver_root));
        let watch = FabricWatch::spawn(probe, WatchConfig::default(), on_change)
            .map_err(|error| StartError::new(&error, "raise the limits on threads"))?;
        // Nobody else sets it.
        let _ = hardware.watch.set(watch);
        Ok(hardware)
    }

    /// The hardware now. Reads one small file, so not on an async worker.
    pub(crate) fn look(&self) -> World {
        let not_read = Fabric::Pending(Pending::NotReadYet);
        World {
            fabric: self
                .watch
                .get()
                .map_or(not_read, |watch| watch.latest().fabric),
            library_seen: self.library_seen.load(Ordering::Relaxed),
            major: imex_cdi::read_channel_major(&self.proc_devices),
        }
    }

    /// Draws the consequences of every change until `shutdown`.
    pub(crate) async fn follow(
        self: Arc<Self>,
        consequences: Consequences,
        shutdown: CancellationToken,
    ) {
        let mut said = None;
        loop {
            let hardware = Arc::clone(&self);
            let Ok(world) = tokio::task::spawn_blocking(move || hardware.look()).await else {
                return; // the runtime is going down
            };
            consequences.draw(&world);
            let state = describe(&world);
            let seen = !matches!(world.fabric, Fabric::Pending(Pending::NotReadYet));
            if seen && said.as_ref() != Some(&state) {
                consequences.say(&world, &state).await;
                said = Some(state);
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(MAJOR_EVERY) => {}
            }
        }
    }

    fn notice(&self, reading: &Reading) {
        if reading.gpus.is_some() || !matches!(reading.fabric, Fabric::NoLibrary(_)) {
            self.library_seen.store(true, Ordering::Relaxed);
        }
        self.changed.notify_one();
    }
}

impl Consequences {
    fn draw(&self, world: &World) {
        set(&self.fabric_ready, world.fabric_ready());
        set(&self.major_ready, world.major_ready());
        self.desired
            .send_if_modified(|desired| replace(desired, desired_slice(world)));
        let health = vec![channel_health(&self.pool, world)];
        self.health
            .send_if_modified(|before| replace(before, health));
    }

    /// One event about the node per change; the log has it from the conditions.
    async fn say(&self, world: &World, state: &str) {
        let healthy = world.fabric_ready().is_ok() && world.major_ready().is_ok();
        if healthy {
            tracing::info!(fabric = %world.fabric, code = world.fabric.code(), "identified fabric clique");
            self.events
                .normal(&self.node, "IMEXChannelReady", "Probe", state)
                .await;
        } else {
            self.events
                .warning(&self.node, "IMEXChannelNotReady", "Probe", state)
                .await;
        }
    }
}

fn set(condition: &Condition, state: Result<(), String>) {
    match state {
        Ok(()) => condition.ready(),
        Err(reason) => condition.not_ready(&reason),
    }
}

fn replace<T: PartialEq>(slot: &mut T, value: T) -> bool {
    let changed = *slot != value;
    *slot = value;
    changed
}

/// The hardware in one line, the same for as long as nothing changes.
fn describe(world: &World) -> String {
    let fabric = match &world.fabric {
        // Its Display counts seconds.
        Fabric::NoAnswer { .. } => "NVML does not answer".to_owned(),
        fabric => fabric.to_string(),
    };
    match world.major_ready() {
        Ok(()) => fabric,
        Err(reason) => format!("{fabric}; {reason}"),
    }
}

fn desired_slice(world: &World) -> Desired {
    match &world.fabric {
        // A slice of our predecessor stays until we know better.
        Fabric::Pending(Pending::NotReadYet) => Desired::Undecided,
        _ if world.publishes() => Desired::Devices(vec![channel(PUBLISHED_CHANNEL)]),
        _ => Desired::Withdrawn,
    }
}

/// A channel as Go publishes it.
fn channel(id: u32) -> Device {
    let kind = DeviceAttribute {
        string: Some(DEVICE_TYPE_CHANNEL.to_owned()),
        ..DeviceAttribute::default()
    };
    let number = DeviceAttribute {
        int: Some(i64::from(id)),
        ..DeviceAttribute::default()
    };
    Device {
        name: names::channel_device_name(id),
        attributes: Some(
            [
                (DEVICE_TYPE_ATTRIBUTE.to_owned(), kind),
                (DEVICE_ID_ATTRIBUTE.to_owned(), number),
            ]
            .into(),
        ),
        ..Device::default()
    }
}

fn channel_health(pool: &str, world: &World) -> DeviceHealth {
    let (health, message) = match (&world.fabric, world.major_ready()) {
        (_, Err(reason)) => (Health::Unhealthy, reason),
        (Fabric::Clique(clique), Ok(())) if clique.degraded.is_empty() => {
            (Health::Healthy, String::new())
        }
        (Fabric::Pending(Pending::NotReadYet), Ok(())) => (Health::Unknown, String::new()),
        (_, Ok(())) => (Health::Unhealthy, describe(world)),
    };
    DeviceHealth {
        pool: pool.to_owned(),
        device: names::channel_device_name(PUBLISHED_CHANNEL),
        health,
        message,
    }
}

/// The conditions that [`Consequences`] keeps.
pub(crate) fn conditions(readiness: &Readiness) -> (Condition, Condition) {
    (
        readiness.condition("fabric", "the fabric has not been read yet"),
        readiness.condition("channel-major", "the channel major has not been read yet"),
    )
}

#[cfg(test)]
mod tests {
    use nvml_clique::{NoLibrary, NvmlFailure};

    use super::*;

    fn mk_world(fabric: Fabric, library_seen: bool) -> World {
        World {
            fabric,
            library_seen,
            major: imex_cdi::channel_major("Character devices:\n235 nvidia-caps-imex-channels\n")
                .map_err(|_| unreachable!()),
        }
    }

    fn no_library() -> Fabric {
        let reason = "it is no library".to_owned();
        Fabric::NoLibrary(NoLibrary::Unloadable {
            path: "/libnvidia-ml.so.1".into(),
            reason,
        })
    }

    #[test]
    fn the_device_is_published_as_go_publishes_it() {
        let failing = Fabric::NvmlFailed(NvmlFailure::SymbolMissing { call: "nvmlInit" });
        let Desired::Devices(devices) = desired_slice(&mk_world(failing, true)) else {
            panic!("published")
        };
        assert_eq!(
            serde_json::to_value(&devices).unwrap(),
            serde_json::json!([{"name": "channel-0", "attributes": {"id": {"int": 0}, "type": {"string": "channel"}}}])
        );
    }

    #[test]
    fn before_the_first_look_the_slice_stays_as_it_is() {
        let world = mk_world(Fabric::Pending(Pending::NotReadYet), false);
        assert_eq!(desired_slice(&world), Desired::Undecided);
    }

    #[test]
    fn without_a_driver_nothing_is_published_unless_it_was_there_before() {
        assert_eq!(
            desired_slice(&mk_world(no_library(), false)),
            Desired::Withdrawn
        );
        assert!(matches!(
            desired_slice(&mk_world(no_library(), true)),
            Desired::Devices(_)
        ));
    }

    #[test]
    fn a_hung_nvml_is_one_state_however_long_it_lasts() {
        let after = |seconds| {
            mk_world(
                Fabric::NoAnswer {
                    waited: Duration::from_secs(seconds),
                    call: None,
                },
                true,
            )
        };
        assert_eq!(describe(&after(10)), describe(&after(20)));
    }
}
