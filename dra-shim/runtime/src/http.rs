//! Health and metrics over HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dra_common::Advice;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::liveness::Liveness;
use crate::readiness::Readiness;

/// The server of health and metrics. [`HttpArgs::bind`](crate::HttpArgs::bind) binds it early, so that
/// a port in use is a configuration error. It does not serve yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    /// With a leading slash; `None` if metrics are not served.
    metrics_path: Option<String>,
    liveness: Liveness,
}

/// Why health and metrics cannot be served.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(vis = "pub(crate)")]
pub(crate) enum HttpError {
    /// The endpoint is not an address.
    #[error("--http-endpoint {endpoint:?} is not an address")]
    #[advice(
        hint = "set --http-endpoint (HTTP_ENDPOINT) to :PORT or ADDRESS:PORT, or leave it empty"
    )]
    Endpoint {
        /// The option's value.
        endpoint: String,
    },
    /// The server cannot listen on any address of the endpoint.
    #[error("cannot listen on {addresses:?}")]
    #[advice(
        hint = "set --http-endpoint (HTTP_ENDPOINT) to an address of this pod and a free port, or leave it empty"
    )]
    Bind {
        /// All addresses that were tried.
        addresses: Vec<SocketAddr>,
        /// The error of the last one.
        #[source]
        source: io::Error,
    },
    /// The metrics path is reserved or not a plain path.
    #[error("--metrics-path {path:?} is reserved or not a plain path")]
    #[advice(
        hint = "set --metrics-path (METRICS_PATH) to a plain path other than /livez and /readyz, or leave it empty"
    )]
    MetricsPath {
        /// The option's value.
        path: String,
    },
}

/// The state of the handlers.
#[derive(Clone)]
struct HandlerState {
    readiness: Readiness,
    liveness: Liveness,
    registry: Arc<Registry>,
}

// === impl HttpServer ===

impl HttpServer {
    pub(crate) async fn bind(
        addresses: &[SocketAddr],
        metrics_path: &str,
    ) -> Result<Self, HttpError> {
        let metrics_path = normalise_path(metrics_path)?;
        let listener = TcpListener::bind(addresses)
            .await
            .map_err(|source| HttpError::Bind {
                addresses: addresses.to_vec(),
                source,
            })?;
        Ok(Self {
            listener,
            metrics_path,
            liveness: Liveness::default(),
        })
    }

    /// The bound address, with the actual port if the endpoint has port 0.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Sets the tasks that `/livez` depends on; none by default.
    #[must_use]
    pub fn liveness(self, liveness: Liveness) -> Self {
        Self { liveness, ..self }
    }

    /// Serves until `shutdown` is cancelled; spawn it. Start it before anything slow: kubelet restarts a
    /// container whose `/livez` does not respond.
    ///
    /// * `/livez`: 200, or 503 with one line `task: reason` for each task that has died, hangs or needs a
    ///   restart ([`liveness`](Self::liveness)); no response if the tokio runtime hangs;
    /// * `/readyz`: 200, or 503 with one line `condition: reason` for each unmet condition;
    /// * the metrics of `registry`, and `imex_dra_condition_met{condition}` of each condition.
    pub async fn serve(
        self,
        readiness: Readiness,
        mut registry: Registry,
        shutdown: CancellationToken,
    ) {
        readiness.register_metrics(&mut registry);
        if let Ok(address) = self.local_addr() {
            info!(%address, metrics = self.metrics_path, "serving health and metrics");
        }
        let mut router = Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz));
        if let Some(path) = &self.metrics_path {
            router = router.route(path, get(metrics));
        }
        let router = router.with_state(HandlerState {
            readiness,
            liveness: self.liveness,
            registry: Arc::new(registry),
        });
        let serving = axum::serve(self.listener, router).into_future();
        // No graceful shutdown: an idle connection would keep the process alive, and responses are short.
        tokio::select! {
            () = shutdown.cancelled() => {}
            result = serving => if let Err(err) = result {
                error!(error = %err, "HTTP server failed; health and metrics are no longer served");
            }
        }
    }
}

async fn livez(State(state): State<HandlerState>) -> Response {
    let failures = state.liveness.failures();
    for (task, reason) in &failures {
        error!(task, reason, "task failed; /livez responds 503");
    }
    ok_unless(failures)
}

async fn readyz(State(state): State<HandlerState>) -> Response {
    ok_unless(state.readiness.unmet())
}

fn ok_unless(failures: Vec<(&'static str, String)>) -> Response {
    if failures.is_empty() {
        return "ok\n".into_response();
    }
    let mut body = String::new();
    for (name, reason) in failures {
        // One line each, even if a library's message has more.
        let reason = reason.replace('\n', " ");
        body.extend([name, ": ", &reason, "\n"]);
    }
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

async fn metrics(State(state): State<HandlerState>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut body = String::new();
    match encode(&mut body, &state.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "a metric failed to encode\n",
        )
            .into_response(),
    }
}

/// Adds a leading slash. Fails for a path that the router would treat as a pattern.
fn normalise_path(path: &str) -> Result<Option<String>, HttpError> {
    if path.is_empty() {
        return Ok(None);
    }
    let normal = format!("/{}", path.trim_start_matches('/'));
    let plain = normal
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"/-_.".contains(&b));
    if !plain || normal == "/livez" || normal == "/readyz" {
        return Err(HttpError::MetricsPath {
            path: path.to_owned(),
        });
    }
    Ok(Some(normal))
}

/// Parses an address like Go. `:8080` means all interfaces: the unspecified IPv6 address, which also
/// accepts IPv4, or the unspecified IPv4 address if the kernel has no IPv6.
pub(crate) fn listen_addresses(endpoint: &str) -> Result<Vec<SocketAddr>, HttpError> {
    let bad = || HttpError::Endpoint {
        endpoint: endpoint.to_owned(),
    };
    if let Some(port) = endpoint.strip_prefix(':') {
        let port: u16 = port.parse().map_err(|_| bad())?;
        let unspecified: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        return Ok(unspecified.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    let address = endpoint.replace("localhost:", "127.0.0.1:");
    address
        .parse()
        .map(|address| vec![address])
        .map_err(|_| bad())
}

#[cfg(test)]
mod tests;
