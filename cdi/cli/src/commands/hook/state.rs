//! A container's state, as an OCI runtime writes it to its hooks.

use std::io::{self, Read};
use std::path::PathBuf;

use serde::Deserialize;

use super::error::HookError;

/// Longer than any state: its annotations are those of the config.
const MAX_LEN: u64 = 16 << 20;

/// What is needed of it.
#[derive(Debug, Deserialize)]
pub(super) struct State {
    /// The bundle's directory.
    pub(super) bundle: PathBuf,
}

/// Reads standard input to its end, whatever it is: a runtime that cannot write it all may
/// take that for the hook's end.
pub(super) fn read() -> Result<State, HookError> {
    let mut stdin = io::stdin().lock();
    let mut bytes = Vec::new();
    (&mut stdin)
        .take(MAX_LEN)
        .read_to_end(&mut bytes)
        .map_err(HookError::Stdin)?;
    let more = io::copy(&mut stdin, &mut io::sink()).map_err(HookError::Stdin)?;
    if more > 0 {
        return Err(HookError::LongState);
    }
    serde_json::from_slice(&bytes).map_err(HookError::State)
}
