//! Metrics and health over HTTP.

use std::path::Path;
use std::sync::Arc;

use daemon_runtime::{Events, HttpArgs, HttpServer, Liveness, Readiness, StartError};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::checkpoint_gauges;
use crate::metrics::Metrics;
use crate::plugin_devices::PluginDevices;

/// Registers the metrics of every plugin, except those of conditions, which [`HttpServer::serve`] adds.
pub fn register_metrics<P: PluginDevices>(
    node_name: &str,
    data_dir: &Path,
    events: &Events,
) -> (Registry, Arc<Metrics>) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, node_name, P::DRIVER, P::DEVICE_TYPES);
    checkpoint_gauges::register(&mut registry, data_dir);
    events.register_metrics(&mut registry);
    (registry, metrics)
}

/// Serves health on a separate port for kubelet's probes, and again beside the metrics, until `shutdown`.
/// `healthcheck_port`: 0 is any free port, and below 0 there is none.
///
/// # Errors
/// A port cannot be opened.
pub async fn serve_http(
    http: &HttpArgs,
    healthcheck_port: i32,
    (readiness, liveness): (&Readiness, &Liveness),
    registry: Registry,
    shutdown: &CancellationToken,
) -> Result<(), StartError> {
    let serve = |server: HttpServer, registry| {
        let server = server.liveness(liveness.clone());
        tokio::spawn(server.serve(readiness.clone(), registry, shutdown.clone()));
    };
    if healthcheck_port >= 0 {
        let health = HttpArgs {
            http_endpoint: format!(":{healthcheck_port}"),
            metrics_path: String::new(),
        };
        if let Some(server) = health.bind().await? {
            serve(server, Registry::default());
        }
    }
    if let Some(server) = http.bind().await? {
        serve(server, registry);
    }
    Ok(())
}
