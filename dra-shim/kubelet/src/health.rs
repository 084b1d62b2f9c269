//! The health stream: kubelet shows it in `pod.status`, and nothing more follows
//! from it. kubelet opens the stream on every plugin, advertised or not.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::limit::{Cut, fit_health};
use crate::observer::Observer;
use crate::proto::health as proto;
use crate::proto::health::dra_resource_health_server::DraResourceHealth;

/// kubelet forgets a report after 30 s; three heartbeats fit into that.
const HEARTBEAT: Duration = Duration::from_secs(10);
const TIMEOUT_SECONDS: i64 = 30;
/// kubelet cuts longer texts between bytes, not characters.
const MAX_MESSAGE: usize = 1024;

/// The health of one device. A driver always gives the list of all of them; of
/// several entries for one device kubelet keeps the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHealth {
    /// As in the `ResourceSlice`.
    pub pool: String,
    /// As in the `ResourceSlice`.
    pub device: String,
    /// The verdict.
    pub health: Health,
    /// Why, for `pod.status`; may be empty. At most 1024 bytes are sent, and fewer of
    /// every message when the list would not fit into the 4 MiB that kubelet takes:
    /// with 10000 devices that is some 350. Should the names alone not fit, the end
    /// of the list is left out, and kubelet shows those devices as unknown. Either is
    /// logged.
    pub message: String,
}

/// A verdict on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It works.
    Healthy,
    /// It does not.
    Unhealthy,
    /// It cannot be told.
    Unknown,
}

/// The service on one instance's socket.
pub(crate) struct HealthService {
    pub(crate) devices: watch::Receiver<Vec<DeviceHealth>>,
    pub(crate) observer: Arc<dyn Observer>,
    /// Ends the streams, which nothing else would.
    pub(crate) stop: CancellationToken,
}

#[tonic::async_trait]
impl DraResourceHealth for HealthService {
    type NodeWatchResourcesStream =
        BoxStream<'static, Result<proto::NodeWatchResourcesResponse, Status>>;

    async fn node_watch_resources(
        &self,
        _: Request<proto::NodeWatchResourcesRequest>,
    ) -> Result<Response<Self::NodeWatchResourcesStream>, Status> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reports = Reports {
            devices: self.devices.clone(),
            driver_is_gone: false,
            heartbeat,
            stop: self.stop.clone(),
            lost: Cut::default(),
            _open: OpenStream::new(Arc::clone(&self.observer)),
        };
        let stream = stream::unfold(reports, |mut reports| async move {
            let report = reports.next().await?;
            Some((Ok(report), reports))
        });
        Ok(Response::new(stream.boxed()))
    }
}

/// One stream's state: a report at once, at every change and at every heartbeat.
struct Reports {
    devices: watch::Receiver<Vec<DeviceHealth>>,
    driver_is_gone: bool,
    heartbeat: Interval,
    stop: CancellationToken,
    /// What the last report had to lose, which is said once.
    lost: Cut,
    _open: OpenStream,
}

/// Counts as open until it is dropped.
struct OpenStream(Arc<dyn Observer>);

impl OpenStream {
    fn new(observer: Arc<dyn Observer>) -> Self {
        observer.health_stream(true);
        Self(observer)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.health_stream(false);
    }
}

impl Reports {
    async fn next(&mut self) -> Option<proto::NodeWatchResourcesResponse> {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                _ = self.heartbeat.tick() => break,
                changed = self.devices.changed(), if !self.driver_is_gone => {
                    self.driver_is_gone = changed.is_err();
                    if !self.driver_is_gone { break }
                }
            }
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let report = |device: &DeviceHealth| report(device, now);
        let devices = self
            .devices
            .borrow_and_update()
            .iter()
            .map(report)
            .collect();
        let mut report = proto::NodeWatchResourcesResponse { devices };
        let lost = fit_health(&mut report);
        if lost != self.lost && lost != Cut::default() {
            tracing::warn!(
                ?lost,
                "the devices' health exceeds kubelet's limit of 4 MiB"
            );
        }
        self.lost = lost;
        Some(report)
    }
}

fn report(device: &DeviceHealth, now: i64) -> proto::DeviceHealth {
    let health = match device.health {
        Health::Healthy => proto::HealthStatus::Healthy,
        Health::Unhealthy => proto::HealthStatus::Unhealthy,
        Health::Unknown => proto::HealthStatus::Unknown,
    };
    proto::DeviceHealth {
        device: Some(proto::DeviceIdentifier {
            pool_name: device.pool.clone(),
            device_name: device.device.clone(),
        }),
        health: health.into(),
        last_updated_time: now,
        health_check_timeout_seconds: TIMEOUT_SECONDS,
        message: crate::text::cut(&device.message, MAX_MESSAGE).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Deaf;

    #[tokio::test(start_paused = true)]
    async fn a_dropped_sender_leaves_its_last_list_reported() {
        let (sender, devices) = watch::channel(vec![DeviceHealth {
            pool: "n1".into(),
            device: "d0".into(),
            health: Health::Unhealthy,
            message: String::new(),
        }]);
        drop(sender);
        let stop = CancellationToken::new();
        let service = HealthService {
            devices,
            observer: Arc::new(Deaf),
            stop,
        };
        let request = Request::new(proto::NodeWatchResourcesRequest {});
        let stream = service.node_watch_resources(request).await.unwrap();
        let reports: Vec<_> = stream.into_inner().take(2).collect().await;
        let verdicts: Vec<_> = reports
            .into_iter()
            .map(|report| report.unwrap().devices[0].health)
            .collect();
        assert_eq!(verdicts, [2, 2]);
    }
}
