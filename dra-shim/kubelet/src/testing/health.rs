//! kubelet's side of the health stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::event::Event;
use super::handshake::grpc;
use super::link::Link;
use super::session::Session;
use crate::health::{DeviceHealth, Health};
use crate::proto::health as proto;
use crate::proto::health::dra_resource_health_client::DraResourceHealthClient;

/// What the streams said: by driver, then by pool and device.
#[derive(Default)]
pub(super) struct Reports(BTreeMap<String, BTreeMap<(String, String), Report>>);

struct Report {
    health: DeviceHealth,
    /// kubelet's own clock, not the plugin's `last_updated_time`.
    received: Instant,
    fresh_for: Duration,
}

impl Reports {
    fn add(&mut self, driver: &str, devices: &[proto::DeviceHealth], default: Duration) {
        let reports = self.0.entry(driver.to_owned()).or_default();
        for device in devices {
            let health = health_of(device);
            let fresh_for = match u64::try_from(device.health_check_timeout_seconds) {
                Ok(seconds @ 1..) => Duration::from_secs(seconds),
                _ => default,
            };
            let report = Report {
                health: health.clone(),
                received: Instant::now(),
                fresh_for,
            };
            reports.insert((health.pool, health.device), report);
        }
    }

    /// A device that is not in a report stays as it was until that is stale.
    pub(super) fn read(&self, driver: &str, pool: &str, device: &str) -> DeviceHealth {
        let key = (pool.to_owned(), device.to_owned());
        let report = self.0.get(driver).and_then(|reports| reports.get(&key));
        match report {
            Some(report) if report.received.elapsed() <= report.fresh_for => report.health.clone(),
            _ => DeviceHealth {
                pool: key.0,
                device: key.1,
                health: Health::Unknown,
                message: String::new(),
            },
        }
    }
}

fn health_of(device: &proto::DeviceHealth) -> DeviceHealth {
    let id = device.device.clone().unwrap_or_default();
    DeviceHealth {
        pool: id.pool_name,
        device: id.device_name,
        health: match device.health() {
            proto::HealthStatus::Healthy => Health::Healthy,
            proto::HealthStatus::Unhealthy => Health::Unhealthy,
            proto::HealthStatus::Unknown => Health::Unknown,
        },
        message: device.message.clone(),
    }
}

/// Keeps a stream open on the plugin's one connection, advertised or not (facts:
/// the end of a stream clears all that the driver said; the next comes after 5 s,
/// also where the service is not implemented).
pub(super) async fn listen(session: Weak<Session>, driver: String, link: Arc<Link>) {
    loop {
        let reason = follow(&session, &driver, &link).await;
        let Some(session) = session.upgrade() else {
            return;
        };
        session.health().0.remove(&driver);
        session.world.log.push(Event::HealthLost {
            driver: driver.clone(),
            reason,
        });
        let pause = session.world.options.times.health_reopen;
        drop(session);
        tokio::time::sleep(pause).await;
    }
}

/// One stream to its end, and why it ended.
async fn follow(session: &Weak<Session>, driver: &str, link: &Link) -> String {
    let wire = match link.wire().await {
        Ok(wire) => wire,
        Err(reason) => return reason,
    };
    let origin = wire.origin.clone();
    let mut client = DraResourceHealthClient::with_origin(wire, origin);
    let request = proto::NodeWatchResourcesRequest {};
    let mut stream = match client.node_watch_resources(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return grpc(status),
    };
    loop {
        let report = match stream.message().await {
            Ok(Some(report)) => report,
            Ok(None) => return "EOF".to_owned(),
            Err(status) => return grpc(status),
        };
        let Some(session) = session.upgrade() else {
            return "kubelet ended".to_owned();
        };
        let default = session.world.options.times.health_freshness;
        session.health().add(driver, &report.devices, default);
        session.world.log.push(Event::HealthReported {
            driver: driver.to_owned(),
            devices: report.devices.iter().map(health_of).collect(),
        });
    }
}
