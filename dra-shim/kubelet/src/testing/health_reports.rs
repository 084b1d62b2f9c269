//! kubelet's cache of devices' health.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::device_health::{DeviceHealth, Health};
use crate::proto::health as proto;

/// The reports of the health streams: by driver, then by pool and device.
#[derive(Default)]
pub(super) struct Reports(BTreeMap<String, BTreeMap<(String, String), Report>>);

struct Report {
    health: DeviceHealth,
    /// kubelet's own clock, not the plugin's `last_updated_time`.
    received: Instant,
    fresh_for: Duration,
}

// === impl Reports ===

impl Reports {
    pub(super) fn clear(&mut self, driver: &str) {
        self.0.remove(driver);
    }

    pub(super) fn add(&mut self, driver: &str, devices: &[proto::DeviceHealth], default: Duration) {
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

    /// The health of a device. A device that is missing in the last report keeps its health
    /// until that is stale.
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

pub(super) fn health_of(device: &proto::DeviceHealth) -> DeviceHealth {
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
