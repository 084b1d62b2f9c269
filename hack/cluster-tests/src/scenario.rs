//! Runs a scenario of a suite inside the cluster: its runtime and its row in the table.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// Runs a scenario in its own runtime. Its return value is the remark of its row in the table that
/// `hack/e2e.sh` prints; `label` is the row's first column, `title` its second.
///
/// # Errors
/// Those of the scenario.
pub fn run_scenario(
    label: &str,
    title: &str,
    scenario: impl Future<Output = Result<String>>,
) -> Result<()> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(scenario);
    // Does not wait for hanging blocking work.
    runtime.shutdown_background();
    let (result, remark) = match &outcome {
        // For the table; libtest has no such result.
        Ok(remark) if remark.starts_with("not applicable") => ("-", remark.clone()),
        Ok(remark) => ("ok", remark.clone()),
        Err(error) => ("FAILED", format!("{error:#}")),
    };
    append_row(&[
        label,
        title,
        result,
        &format!("{:.1}", started.elapsed().as_secs_f64()),
        &remark.replace(['\n', '\t'], " "),
    ])?;
    outcome.map(drop)
}

/// Appends to the table, if there is one.
fn append_row(cells: &[&str]) -> Result<()> {
    let Some(path) = std::env::var_os("SCENARIO_TABLE").map(PathBuf::from) else {
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

/// The module and the name of the test around the closure `body`; the name as a sentence.
pub fn module_and_title<F>(_body: &F) -> (String, String) {
    let path = std::any::type_name::<F>();
    let mut names = path.rsplit("::").filter(|part| !part.starts_with('{'));
    let title = names.next().unwrap_or(path).replace('_', " ");
    let module = names.next().unwrap_or_default().replace('_', " ");
    (module, title)
}
