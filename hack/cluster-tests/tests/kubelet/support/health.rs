//! Devices' health: what the driver reports, and what the status of pods shows.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use dra_kubelet::{DeviceHealth, Health};

use super::driver::Running;
use super::{NODE, Node, ScriptedDriver, until};

/// The remark of a scenario that this kubelet cannot run.
pub(crate) const NO_HEALTH: &str = "not applicable: kubelet's gate ResourceHealthStatus is off";

/// One device's health.
pub(crate) fn health(device: &str, health: Health, message: &str) -> DeviceHealth {
    DeviceHealth {
        pool: NODE.to_owned(),
        device: device.to_owned(),
        health,
        message: message.to_owned(),
    }
}

impl Running {
    /// Reports device `d0`, and no other.
    pub(crate) fn report_health(&self, verdict: Health, message: &str) {
        self.health
            .send_replace(vec![health("d0", verdict, message)]);
    }
}

impl Node {
    /// The scenario's driver with a healthy device `d0`, and a pod that runs with it.
    pub(crate) async fn serve_healthy_pod(&self, pod: &str) -> Result<Running> {
        let running = self.serve(&ScriptedDriver::default()).await?;
        running.report_health(Health::Healthy, "");
        self.start_pod(pod).await?;
        self.until_running(pod).await;
        Ok(running)
    }

    /// Whether this kubelet reports health at all: since 1.36 without being asked.
    pub(crate) async fn shows_health(&self) -> Result<bool> {
        let gate = self.gate("ResourceHealthStatus").await?;
        gate.context("kubelet's metrics do not name its gate ResourceHealthStatus")
    }

    /// Whether a pod with two shares of a device gets a status. A kubelet that shows health and
    /// knows no shares (1.34 and 1.35 with that gate) names the device twice in it, and the API
    /// server refuses each attempt: `Duplicate value`.
    pub(crate) async fn shows_pods_of_two_shares(&self) -> Result<bool> {
        let shares = self.gate("DRAConsumableCapacity").await? == Some(true);
        Ok(shares || !self.shows_health().await?)
    }

    /// The health of the pod's only device in its status.
    pub(crate) async fn health_of(&self, pod: &str) -> Result<String> {
        let pod = self.pods().get(pod).await?;
        let containers = pod.status.and_then(|it| it.container_statuses);
        let container = containers
            .into_iter()
            .flatten()
            .next()
            .context("no container")?;
        let resources = container
            .allocated_resources_status
            .context("no resources")?;
        let all = resources
            .into_iter()
            .flat_map(|it| it.resources.unwrap_or_default());
        let resource = all.into_iter().next().context("no device")?;
        Ok(resource.health.unwrap_or_default())
    }

    /// Waits until the pod's status shows this health; how long it took.
    pub(crate) async fn until_shown(&self, pod: &str, wanted: &str) -> Duration {
        let started = Instant::now();
        until(&format!("pod {pod} shows {wanted}"), async || {
            let health = self.health_of(pod).await?;
            ensure!(health == wanted, "it shows {health:?}");
            Ok(())
        })
        .await;
        started.elapsed()
    }
}
