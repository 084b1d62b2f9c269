//! Figures of a process.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::time::ClockId;
use nix::unistd::Pid;

/// The number after `key` in the file `path` of `/proc`; for `VmHWM: 5120 kB` it is
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

/// Anonymous memory of a process, in KiB.
pub(crate) fn anonymous_kib(pid: u32) -> anyhow::Result<u64> {
    number(&format!("/proc/{pid}/status"), "RssAnon")
}

/// The peak resident memory of a process, files included, in KiB.
pub(crate) fn peak_kib(pid: u32) -> anyhow::Result<u64> {
    number(&format!("/proc/{pid}/status"), "VmHWM")
}

/// CPU time of all threads of a process so far.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.try_into()?))?;
    Ok(clock.now()?.into())
}
