//! Without a configured socket, the plugin never mentions the host's IMEX daemon.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::GIVE_UP;
use crate::node::{Node, claim};

/// Words for the daemon, its tool, its socket and its state, in lower case. The names of feature
/// gates and of the channels' driver contain none of them.
const WORDS: [&str; 5] = [
    "nvidia-imex",
    "host imex",
    "host's imex",
    "imex-ctl",
    "host_imex",
];

/// The plugin's output that users can see.
struct Seen {
    log: String,
    served: String,
    events: String,
    answers: String,
}

/// Prepares a claim, has another one refused, unprepares the first one, and returns all output.
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

/// Waits for the event of the refused claim `b`, which comes in any case.
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
    let without = everything_seen(&[]).await;
    assert!(without.answers.contains("channel-0"), "{}", without.answers);
    for text in [
        &without.log,
        &without.served,
        &without.events,
        &without.answers,
    ] {
        assert_eq!(mentions(text), None);
    }
    let with = everything_seen(&["--imex-host-socket-path=/run/imex.sock"]).await;
    for text in [&with.log, &with.events, &with.answers] {
        assert!(mentions(text).is_some(), "{text}");
    }
}
