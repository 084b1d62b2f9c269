//! A real client of this crate whose server vanishes: packets of its connections are dropped without an
//! answer, like after a pulled cable or by a load balancer that has lost its state. Without keepalive, the
//! watch would hang for five minutes, and so would a request on each pooled connection.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test ends where its expectation fails, and this one prints what it measures"
)]

use std::collections::BTreeSet;
use std::env;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use daemon_runtime::{KubeArgs, Readiness};
use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::time::{sleep, timeout};

/// The time within which a dead peer must be detected.
const LIMIT: Duration = Duration::from_secs(60);

/// Set in the process inside the network namespace.
const INSIDE: &str = "IMEX_TEST_IN_NAMESPACE";

const TEST: &str = "a_peer_that_vanishes_is_noticed_within_a_minute";

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    kube: KubeArgs,
}

// req: CD-30
#[test]
#[ignore = "needs root, ip and nft, and takes a minute: hack/test.sh runs it"]
fn a_peer_that_vanishes_is_noticed_within_a_minute() {
    if env::var_os(INSIDE).is_none() {
        return run_in_namespace();
    }
    run(&["ip", "link", "set", "lo", "up"]);
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(watch_and_pool_notice());
}

/// Runs this test again in its own network namespace, where it may change the firewall.
fn run_in_namespace() {
    let status = Command::new("unshare")
        .arg("--net")
        .arg(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", TEST])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

async fn watch_and_pool_notice() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server_port = listener.local_addr().unwrap().port();
    tokio::spawn(serve(listener));
    let client = client(server_port).await;

    let watch = client.send(get("/api/v1/nodes?watch=true")).await.unwrap();
    two_requests(&client).await;
    let cut = open_connections(server_port);
    assert_eq!(cut.len(), 3, "one of the watch, two in the pool");
    drop_packets_of(&cut);
    let start = Instant::now();

    let ended = timeout(LIMIT, watch.into_body().collect_bytes()).await;
    println!("the watch ended after {:?}: {ended:?}", start.elapsed());
    ended.expect("the watch is still open").unwrap_err();

    let pool_is_clean = async {
        while !open_connections(server_port).is_disjoint(&cut) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let noticed = timeout(LIMIT.saturating_sub(start.elapsed()), pool_is_clean).await;
    noticed.expect("the pool still has a dead connection");
    println!("the pool was clean after {:?}", start.elapsed());

    let again = Instant::now();
    two_requests(&client).await;
    assert!(
        again.elapsed() < Duration::from_secs(1),
        "{:?}",
        again.elapsed()
    );
    a_get_is_answered_on_a_new_connection(&client, server_port).await;
}

/// A pooled connection dies just before a GET is sent on it. The GET is retried, like in the plugin.
async fn a_get_is_answered_on_a_new_connection(client: &Client, server_port: u16) {
    let cut = open_connections(server_port);
    assert_eq!(cut.len(), 2, "two in the pool");
    drop_packets_of(&cut);
    let start = Instant::now();
    let answered = async {
        while let Err(error) = client.send(get("/single")).await {
            println!("a GET failed after {:?}: {error}", start.elapsed());
        }
    };
    let answered = timeout(LIMIT, answered).await;
    answered.expect("no GET is answered");
    println!("a GET was answered after {:?}", start.elapsed());
}

/// The client of a program that was started with a kubeconfig for this port.
async fn client(server_port: u16) -> Client {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let text = r#"{
        "clusters": [{ "name": "c", "cluster": { "server": "http://127.0.0.1:PORT" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": {} }],
        "current-context": "x"
    }"#;
    std::fs::write(&path, text.replace("PORT", &server_port.to_string())).unwrap();
    let args = Args::parse_from(["test", "--kubeconfig", path.to_str().unwrap()]);
    let condition = Readiness::default().add_condition("api-server", "not reached yet");
    args.kube.client(&condition).await.unwrap()
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// Two concurrent requests, so that they need two connections.
async fn two_requests(client: &Client) {
    let (first, second) = tokio::join!(client.send(get("/a")), client.send(get("/b")));
    for response in [first, second] {
        assert_eq!(response.unwrap().status(), 200);
    }
}

/// The client ports of the established connections to the server.
fn open_connections(server_port: u16) -> BTreeSet<u16> {
    let port = |address: &str| u16::from_str_radix(address.split_once(':').unwrap().1, 16).unwrap();
    std::fs::read_to_string("/proc/self/net/tcp")
        .unwrap()
        .lines()
        .skip(1)
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let established = columns[3] == "01" && port(columns[2]) == server_port;
            established.then(|| port(columns[1]))
        })
        .collect()
}

fn drop_packets_of(ports: &BTreeSet<u16>) {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let ports = format!("{{ {} }}", ports.join(", "));
    run(&["nft", "add table inet cut"]);
    run(&[
        "nft",
        "add chain inet cut in { type filter hook input priority 0; }",
    ]);
    for side in ["sport", "dport"] {
        run(&[
            "nft",
            &format!("add rule inet cut in tcp {side} {ports} drop"),
        ]);
    }
}

fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status();
    assert!(status.unwrap().success(), "{command:?}");
}

/// An API server. A watch starts but never sends anything; two requests are answered together, and
/// `/single` at once.
async fn serve(listener: TcpListener) {
    let pair = Arc::new(Barrier::new(2));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream, pair.clone()));
    }
}

async fn answer(stream: TcpStream, pair: Arc<Barrier>) {
    let mut stream = BufReader::new(stream);
    while let Some(path) = read_request(&mut stream).await {
        let response: &[u8] = if path.contains("watch=true") {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        } else {
            if path != "/single" {
                pair.wait().await;
            }
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        };
        stream.write_all(response).await.unwrap();
    }
}

/// The path of the next request, which has no body; `None` at the end of the connection.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.unwrap_or_default() == 0 {
            return None;
        }
    }
    head.split_whitespace().nth(1).map(str::to_owned)
}
