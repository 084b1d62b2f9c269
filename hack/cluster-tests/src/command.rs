//! Programs that a test runs to completion.

use std::io::Write as _;
use std::iter;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs the command with `input` as its standard input, and returns its standard output.
///
/// # Errors
/// If it does not start or fails; with its output.
pub fn output_of(command: &mut Command, input: &str) -> Result<String> {
    let words = iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{line} does not start"))?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let [printed, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !output.status.success() {
        bail!("{line} failed ({}): {errors}{printed}", output.status);
    }
    Ok(printed)
}
