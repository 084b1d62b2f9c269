//! The health stream. kubelet only shows the health in `pod.status`. It opens the stream on
//! every plugin, even if the service is not advertised.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dra_common::truncated;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::message_size::{Truncation, fit_health};
use crate::device_health::{DeviceHealth, Health};
use crate::observer::Observer;
use crate::proto::health as proto;
use crate::proto::health::dra_resource_health_server::DraResourceHealth;

/// Period in which an unchanged list is repeated. kubelet discards a report after 30 s, the
/// time of three heartbeats.
// req: KUBELET-51
const HEARTBEAT: Duration = Duration::from_secs(10);
const TIMEOUT_SECONDS: i64 = 30;
/// Maximum length of a message. kubelet truncates longer ones, possibly within a character.
const MAX_MESSAGE: usize = 1024;

/// The health service of one service socket.
pub(super) struct HealthService {
    pub(super) devices: watch::Receiver<Vec<DeviceHealth>>,
    pub(super) observer: Arc<dyn Observer>,
    /// Ends the streams, which have no other end.
    pub(super) stop: CancellationToken,
}

/// One stream. It sends a report at once, at every change and at every heartbeat.
struct Reports {
    devices: watch::Receiver<Vec<DeviceHealth>>,
    sender_dropped: bool,
    heartbeat: Interval,
    stop: CancellationToken,
    /// The truncation of the last report; logged when it changes.
    truncation: Truncation,
    _open: OpenStream,
}

/// Reports the stream to the observer as open until this is dropped.
struct OpenStream(Arc<dyn Observer>);

// === impl HealthService ===

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
            sender_dropped: false,
            heartbeat,
            stop: self.stop.clone(),
            truncation: Truncation::default(),
            _open: OpenStream::new(Arc::clone(&self.observer)),
        };
        let stream = stream::unfold(reports, |mut reports| async move {
            let report = reports.next().await?;
            Some((Ok(report), reports))
        });
        Ok(Response::new(stream.boxed()))
    }
}

// === impl OpenStream ===

impl OpenStream {
    fn new(observer: Arc<dyn Observer>) -> Self {
        observer.health_stream_changed(true);
        Self(observer)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.health_stream_changed(false);
    }
}

// === impl Reports ===

impl Reports {
    // req: KUBELET-50
    async fn next(&mut self) -> Option<proto::NodeWatchResourcesResponse> {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                _ = self.heartbeat.tick() => break,
                changed = self.devices.changed(), if !self.sender_dropped => {
                    self.sender_dropped = changed.is_err();
                    if !self.sender_dropped { break }
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
        let truncation = fit_health(&mut report);
        if truncation != self.truncation && truncation != Truncation::default() {
            tracing::warn!(
                ?truncation,
                "the health report was truncated to kubelet's limit of 4 MiB"
            );
        }
        self.truncation = truncation;
        Some(report)
    }
}

// req: KUBELET-52
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
        message: truncated(&device.message, MAX_MESSAGE).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::NoopObserver;

    type Stream = <HealthService as DraResourceHealth>::NodeWatchResourcesStream;

    /// A stream with one device, and the sender of its health.
    async fn mk_stream() -> (watch::Sender<Vec<DeviceHealth>>, Stream) {
        let (sender, devices) = watch::channel(vec![DeviceHealth {
            pool: "n1".into(),
            device: "d0".into(),
            health: Health::Unhealthy,
            message: String::new(),
        }]);
        let service = HealthService {
            devices,
            observer: Arc::new(NoopObserver),
            stop: CancellationToken::new(),
        };
        let request = Request::new(proto::NodeWatchResourcesRequest {});
        let stream = service.node_watch_resources(request).await.unwrap();
        (sender, stream.into_inner())
    }

    // req: KUBELET-51
    #[tokio::test(start_paused = true)]
    async fn kubelet_keeps_a_devices_health_if_two_reports_are_lost() {
        let (_sender, mut stream) = mk_stream().await;
        let first = stream.next().await.unwrap().unwrap();
        let forgets_after = first.devices[0].health_check_timeout_seconds;
        let began = tokio::time::Instant::now();
        for _ in 0..3 {
            stream.next().await.unwrap().unwrap();
        }
        let passed = began.elapsed().as_secs();
        assert!(passed > 0 && passed <= u64::try_from(forgets_after).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_list_is_reported_after_the_sender_is_dropped() {
        let (sender, stream) = mk_stream().await;
        drop(sender);
        let reports: Vec<_> = stream.take(2).collect().await;
        let states: Vec<_> = reports
            .into_iter()
            .map(|report| report.unwrap().devices[0].health)
            .collect();
        assert_eq!(states, [2, 2]);
    }
}
