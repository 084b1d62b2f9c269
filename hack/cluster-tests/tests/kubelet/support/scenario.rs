//! A scenario: its time limit, its driver and namespace.

use std::time::Duration;

use anyhow::Result;
use cluster_tests::{at_most, module_and_title, run_scenario};

use super::Node;

/// The limit of a scenario. The longest ones wait for kubelet's deadline of 45 s
/// and the following retry, or twice for the wipe 30 s after a lost connection.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Runs the scenario of `numbers` (in upstream's list; a word for our own) with its own
/// driver and namespace. It returns the row's remark.
pub(crate) fn run<F>(numbers: &str, body: F) -> Result<()>
where
    F: AsyncFnOnce(&Node) -> Result<String>,
{
    let (_, title) = module_and_title(&body);
    run_scenario(numbers, &title, async {
        let node = Node::connect(numbers).await?;
        let outcome = at_most(TIMEOUT, body(&node)).await;
        if outcome.is_err() {
            node.print_state().await;
        }
        node.delete_namespace().await;
        outcome
    })
}
