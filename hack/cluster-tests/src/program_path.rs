//! Paths of programs that cargo has built.

use anyhow::{Context as _, Result};

/// The path of a program of the workspace, such as `cdi-gen` or `examples/echo`, which
/// `hack/e2e.sh` has built before. Cargo puts it next to the calling test: `DIR/PROGRAM` and
/// `DIR/deps/TEST`.
///
/// # Errors
/// If the test's own path is unknown.
pub fn program_path(program: &str) -> Result<String> {
    let test = std::env::current_exe()?;
    let dir = test
        .ancestors()
        .nth(2)
        .context("the test is not in cargo's directory for tests")?;
    Ok(dir.join(program).display().to_string())
}
