use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use prometheus_client::metrics::gauge::Gauge;

use super::*;

/// The whole response to one GET.
async fn fetch(address: SocketAddr, path: &'static str) -> String {
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
    .await
    .unwrap()
}

async fn server(metrics_path: &str) -> HttpServer {
    HttpServer::bind(&listen_addresses("127.0.0.1:0").unwrap(), metrics_path)
        .await
        .unwrap()
}

#[tokio::test]
async fn readyz_lists_the_unmet_conditions_until_all_are_met() {
    let readiness = Readiness::default();
    let api = readiness.add_condition("api-server", "not reached yet");
    let server = server("/metrics").await;
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(readiness, Registry::default(), CancellationToken::new()));

    let answer = fetch(address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(
        answer.ends_with("api-server: not reached yet\n"),
        "{answer}"
    );
    assert!(fetch(address, "/livez").await.starts_with("HTTP/1.1 200"));

    api.set_met();
    assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn livez_lists_the_failed_tasks() {
    let liveness = Liveness::default();
    let (keeper, mounts, writer) = (
        liveness.add("keeper", std::time::Duration::from_secs(60)),
        liveness.add("mounts", std::time::Duration::from_secs(60)),
        liveness.add("writer", std::time::Duration::ZERO),
    );
    writer.idle();
    let server = server("").await.liveness(liveness);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(
        Readiness::default(),
        Registry::default(),
        CancellationToken::new(),
    ));
    assert!(fetch(address, "/livez").await.starts_with("HTTP/1.1 200"));

    drop(keeper);
    mounts.fail("removed\nby hand".to_owned());
    writer.beat();
    let answer = fetch(address, "/livez").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(
        answer.ends_with(
            "keeper: the task has ended\nmounts: removed by hand\n\
             writer: no heartbeat for 0 s, more than the limit of 0 s\n"
        ),
        "{answer}"
    );
    assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn metrics_are_served_under_the_configured_path() {
    let mut registry = Registry::default();
    let gauge: Gauge = Gauge::default();
    gauge.set(7);
    registry.register("seven", "A number", gauge);
    let server = server("m/x").await;
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(Readiness::default(), registry, CancellationToken::new()));

    let answer = fetch(address, "/m/x").await;
    assert!(answer.contains("seven 7\n"), "{answer}");
    assert!(fetch(address, "/metrics").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_shutdown() {
    let server = server("").await;
    let address = server.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let serving =
        tokio::spawn(server.serve(Readiness::default(), Registry::default(), shutdown.clone()));
    let _idle = TcpStream::connect(address).unwrap();

    shutdown.cancel();
    tokio::time::timeout(std::time::Duration::from_secs(10), serving)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_reported_with_the_option_to_change() {
    let taken = server("").await;
    let address = taken.local_addr().unwrap();
    let err = HttpServer::bind(&[address], "").await.unwrap_err();
    assert_eq!(err.to_string(), format!("cannot listen on [{address}]"));
    assert!(err.hint().contains("--http-endpoint"));
}

#[test]
fn endpoints_are_parsed_like_in_go() {
    let addresses = listen_addresses(":8080").unwrap();
    assert_eq!(
        addresses,
        [
            "[::]:8080".parse().unwrap(),
            "0.0.0.0:8080".parse().unwrap()
        ]
    );
    assert_eq!(
        listen_addresses("[::1]:1").unwrap(),
        ["[::1]:1".parse().unwrap()]
    );
    assert_eq!(
        listen_addresses("localhost:1").unwrap(),
        ["127.0.0.1:1".parse().unwrap()]
    );
    for bad in ["8080", ":", ":x", "example.com:80", "localhost"] {
        assert!(listen_addresses(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_reserved_or_invalid_metrics_path_is_rejected() {
    assert_eq!(normalise_path("").unwrap(), None);
    assert_eq!(
        normalise_path("metrics").unwrap().as_deref(),
        Some("/metrics")
    );
    for bad in ["/livez", "readyz", "/{x}", "/a b", "/*"] {
        assert!(normalise_path(bad).is_err(), "{bad}");
    }
}
