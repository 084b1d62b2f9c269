//! Device health, as reported by the driver and as shown in the status of pods.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use dra_kubelet::{DeviceHealth, Health};

use super::driver::Running;
use super::{NODE, Node, ScriptedDriver, until};

/// The remark of a scenario that does not apply to this kubelet.
pub(crate) const NO_HEALTH: &str = "not applicable: kubelet's gate ResourceHealthStatus is off";
/// The remark of a scenario if kubelet [names a device twice](Node::shows_health_twice).
pub(crate) const TWICE: &str = "not run: this kubelet's ResourceHealthStatus is of its first stage";

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
    /// Reports only device `d0`.
    pub(crate) fn report_health(&self, verdict: Health, message: &str) {
        self.health
            .send_replace(vec![health("d0", verdict, message)]);
    }
}

impl Node {
    /// Starts the scenario's driver with a healthy device `d0`, and a pod that uses it.
    pub(crate) async fn serve_healthy_pod(&self, pod: &str) -> Result<Running> {
        let running = self.serve(&ScriptedDriver::default()).await?;
        running.report_health(Health::Healthy, "");
        self.start_pod(pod).await?;
        self.until_running(pod).await;
        Ok(running)
    }

    /// Whether this kubelet reports health at all: by default since 1.36.
    pub(crate) async fn shows_health(&self) -> Result<bool> {
        let gate = self.gate("ResourceHealthStatus").await?;
        gate.context("kubelet's metrics do not name its gate ResourceHealthStatus")
    }

    /// Whether kubelet has the first version of health (1.34, with the gate off by default). Then a pod's
    /// status names a device twice if the pod has two shares of it, or a claim of two drivers of which one
    /// had to prepare twice. The API server always refuses that (`Duplicate value`), and the running pod
    /// stays `Pending`.
    pub(crate) async fn shows_health_twice(&self) -> Result<bool> {
        let alpha = r#"ResourceHealthStatus",stage="ALPHA"#;
        Ok(self.gate(alpha).await? == Some(true))
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

    /// Waits until the pod's status shows this health; returns how long it took.
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
