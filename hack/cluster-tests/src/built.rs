//! Where cargo has put what a test runs.

use anyhow::{Context as _, Result};

/// The path of a program of the workspace, such as `examples/echo`: beside the
/// calling test, wherever cargo builds (`DIR/deps/TEST`, `DIR/PROGRAM`).
/// `hack/e2e.sh` has built it.
///
/// # Errors
/// If the test's own path is unknown.
pub fn built(program: &str) -> Result<String> {
    let test = std::env::current_exe()?;
    let dir = test.ancestors().nth(2).context("the test is nowhere")?;
    Ok(dir.join(program).display().to_string())
}
