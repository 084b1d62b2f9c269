//! One scenario: its runtime, its time limit, its row in the table.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use super::Node;

/// When a scenario fails. The longest ones wait for kubelet's deadline of 45 s
/// and the retry after it, or twice for the wipe 30 s after a lost connection.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Runs the scenario of `numbers` (of upstream's list; a word for our own) on a node
/// of its own driver and namespace. What it returns is the row's remark.
pub(crate) fn run<F>(numbers: &str, body: F) -> Result<()>
where
    F: AsyncFnOnce(&Node) -> Result<String>,
{
    let title = title_of(&body);
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let node = Node::connect(numbers).await?;
        let outcome = tokio::time::timeout(TIMEOUT, body(&node))
            .await
            .unwrap_or_else(|_| Err(anyhow!("timed out after {} s", TIMEOUT.as_secs())));
        if outcome.is_err() {
            node.print_state().await;
        }
        node.delete_namespace().await;
        outcome
    });
    // Blocking work of a plugin that hangs is not waited for.
    runtime.shutdown_background();
    let (result, remark) = match &outcome {
        // Shown in the table; libtest has no such result.
        Ok(remark) if remark.starts_with("not applicable") => ("-", remark.clone()),
        Ok(remark) => ("ok", remark.clone()),
        Err(error) => ("FAILED", format!("{error:#}")),
    };
    row(&[
        numbers,
        &title,
        result,
        &format!("{:.1}", started.elapsed().as_secs_f64()),
        &remark.replace(['\n', '\t'], " "),
    ])?;
    outcome.map(drop)
}

/// Appends to the table that `hack/e2e.sh` prints, where there is one.
fn row(cells: &[&str]) -> Result<()> {
    let Some(path) = std::env::var_os("KUBELET_TABLE").map(PathBuf::from) else {
        return Ok(());
    };
    let mut table = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .with_context(|| format!("cannot write the table {}", path.display()))?;
    table.write_all(format!("{}\n", cells.join("\t")).as_bytes())?;
    Ok(())
}

/// The name of the test around the closure `body`, as a sentence.
fn title_of<F>(_body: &F) -> String {
    let path = std::any::type_name::<F>();
    let name = path.rsplit("::").find(|part| !part.starts_with('{'));
    name.unwrap_or(path).replace('_', " ")
}
