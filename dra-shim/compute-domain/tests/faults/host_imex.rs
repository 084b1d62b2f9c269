//! Who does not configure a socket of the host's IMEX daemon hears nothing of that daemon.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::GIVE_UP;
use crate::node::{Node, claim};

/// Words for the daemon, its tool, its socket and its state, in small letters. The names of gates
/// and of the channels' driver have none of them.
const WORDS: [&str; 5] = [
    "nvidia-imex",
    "host imex",
    "host's imex",
    "imex-ctl",
    "host_imex",
];

/// What people see of a plugin.
struct Seen {
    log: String,
    served: String,
    events: String,
    answers: String,
}

/// A claim is prepared, another one refused, then the first one is unprepared.
async fn everything_seen(arguments: &[&str]) -> Seen {
    let http = ["--http-endpoint=127.0.0.1:0", "-v=4"];
    let mut node = Node::start_with(&[&http, arguments].concat()).await;
    let answers = [
        format!("{:?}", node.prepare(&claim("a")).await),
        format!("{:?}", node.prepare(&claim("b")).await),
        format!("{:?}", node.unprepare(&claim("a")).await),
    ];
    until_event(&node).await;
    let address = "serving health and metrics address=";
    node.plugin.until_printed(&[address]).await;
    let log = node.plugin.printed();
    let rest = log.split(address).nth(1).unwrap();
    let address = rest.split_whitespace().next().unwrap().to_owned();
    let served = ["/metrics", "/readyz", "/readyz?verbose", "/livez"]
        .map(|path| get(&address, path))
        .concat();
    Seen {
        log: node.plugin.printed(),
        served,
        events: node.api.events().join("\n"),
        answers: answers.join("\n"),
    }
}

/// Claim `b` is refused in any case, and an event says so.
async fn until_event(node: &Node) {
    let began = Instant::now();
    while node.api.events().is_empty() {
        assert!(began.elapsed() < GIVE_UP, "no event");
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn get(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(GIVE_UP)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTP/1.1"), "{answer}");
    answer
}

fn mentions(text: &str) -> Option<String> {
    let is_it = |line: &&str| {
        let line = line.to_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    text.lines().find(is_it).map(str::to_owned)
}

// req: NODE-14
#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_imex_daemon_is_mentioned_only_if_its_socket_is_configured() {
    let silent = everything_seen(&[]).await;
    assert!(silent.answers.contains("channel-0"), "{}", silent.answers);
    for text in [&silent.log, &silent.served, &silent.events, &silent.answers] {
        assert_eq!(mentions(text), None);
    }
    let told = everything_seen(&["--imex-host-socket-path=/run/imex.sock"]).await;
    for text in [&told.log, &told.events, &told.answers] {
        assert!(mentions(text).is_some(), "{text}");
    }
}
