//! The connections to the API server, and the service stack on top of them.
//!
//! kube's own stack opens connections without TCP keepalive. If the API server's machine or a load
//! balancer vanishes, a watch hangs until kube ends it, and a request on a pooled connection hangs. Here
//! the kernel detects the dead peer.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::filter::FilterLayer;
use tower::{BoxError, ServiceBuilder};

use crate::deadline::DeadlineLayer;
use crate::readiness::ReadinessCondition;
use crate::retry_after::RetryAfter;
use crate::token_file::TokenFile;

/// The time for a connection's TCP and TLS handshakes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle time after which the kernel probes a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);

/// Interval between unanswered probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A connection is closed if nothing was received for this long, neither a probe's answer nor an
/// acknowledgement of sent data. The kernel checks this when a probe is due, instead of counting probes:
/// after 30 s, or after 40 s if the check at 30 s came a little early.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// A connection without data for this long is closed, even if the peer's kernel answers probes. kube
/// asks the server to end a watch within 290 s: a server that does not end it hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// How long an idle connection is kept. The API server closes idle connections after 90 s; a request
/// that races with this would fail.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds a client with this configuration and token file. Does not connect. Its layers, from the outside:
/// deadline, URL, `Retry-After`, credentials, connection.
///
/// # Errors
/// If the credentials or certificates cannot be used.
pub(crate) fn client(
    config: Config,
    token: Option<TokenFile>,
    api_server: &ReadinessCondition,
) -> Result<Client, kube::Error> {
    let https = config.rustls_https_connector_with_connector(tcp_connector())?;
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_read_timeout(Some(READ_TIMEOUT));
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(api_server.clone()))
        .layer(config.base_uri_layer())
        .layer_fn(RetryAfter::new)
        .option_layer(config.auth_layer()?)
        .option_layer(token.map(FilterLayer::new))
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// Builds a client with the real deadline and `Retry-After` layers that sends its requests to `server`.
///
/// # Panics
/// Outside a tokio runtime, like every `Client::new`.
#[cfg(feature = "testing")]
pub fn test_client<S, B>(server: S, api_server: &ReadinessCondition) -> Client
where
    S: tower::Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(api_server.clone()))
        .layer_fn(RetryAfter::new)
        .map_err(Into::into)
        .service(server);
    Client::new(service, "default")
}

// req: CD-30
fn tcp_connector() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    // The layer above does TLS.
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE_IDLE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_tcp_user_timeout(Some(SILENCE_LIMIT));
    tcp
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::TcpListener;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn every_connection_has_keepalive_and_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stream = tcp_connector().oneshot(url.parse().unwrap()).await.unwrap();
        let socket = SockRef::from(stream.inner());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(SILENCE_LIMIT));
        assert!(socket.tcp_nodelay().unwrap());
    }
}
