//! What the plugin still does when it is told to end.

use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Behaviour, RecordedRequests};
use crate::node::{Node, claim};

/// Of the report of claim `a`.
const REPORT: RecordedRequests = RecordedRequests {
    what: "patch resourceclaims/status",
    name: "a",
};

/// Prepares a claim and ends the plugin while its report waits for its turn. Returns how often
/// the report was sent, and how long the end took.
async fn end_with_a_report_that_waits(behaviour: Behaviour) -> (usize, Duration) {
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
async fn a_report_that_waits_is_written_before_the_end() {
    let (written, _) = end_with_a_report_that_waits(Behaviour::Delays(Duration::ZERO)).await;
    assert_eq!(written, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_does_not_answer_delays_the_end_by_seconds_only() {
    let (tried, took) = end_with_a_report_that_waits(Behaviour::NeverAnswers).await;
    assert_eq!(tried, 1);
    // 1.5 s, and what a busy machine adds. A request may take 10 s and more.
    assert!(took < Duration::from_secs(6), "{took:?}");
}
