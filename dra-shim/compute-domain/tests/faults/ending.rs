//! The plugin's shutdown after SIGTERM.

use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Behaviour, RequestPattern};
use crate::node::{Node, claim};

/// The request with the report of claim `a`.
const REPORT: RequestPattern = RequestPattern {
    what: "patch resourceclaims/status",
    name: "a",
};

/// Prepares a claim and stops the plugin while the report is pending. Returns how often the report
/// was sent, and how long the shutdown took.
async fn stop_with_a_pending_report(behaviour: Behaviour) -> (usize, Duration) {
    let mut node = Node::start().await;
    node.api.begin_fault(REPORT, behaviour);
    node.prepare(&claim("a")).await.unwrap();
    let began = Instant::now();
    let pid = node.plugin.pid().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    node.plugin.until_died().await;
    (node.api.hits(), began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_report_is_written_before_the_end() {
    let (written, _) = stop_with_a_pending_report(Behaviour::Delays(Duration::ZERO)).await;
    assert_eq!(written, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_api_server_delays_the_end_by_seconds_only() {
    let (tried, took) = stop_with_a_pending_report(Behaviour::NeverAnswers).await;
    assert_eq!(tried, 1);
    // 1.5 s, and more on a busy machine. A request may take 10 s and more.
    assert!(took < Duration::from_secs(6), "{took:?}");
}
