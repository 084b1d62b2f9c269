//! Figures of a process from `/proc`.

use std::fs;

use anyhow::Context;

/// The number behind `key` in the file `path` of `/proc`; of `VmHWM: 5120 kB` it is
/// 5120.
pub(crate) fn number(path: &str, key: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next());
    let number = number.with_context(|| format!("{path} has no {key}"))?;
    Ok(number.parse()?)
}
