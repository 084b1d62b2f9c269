//! Figures of a process.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::time::ClockId;
use nix::unistd::Pid;

/// The unit of times in `/proc/PID/stat`.
const MILLIS_OF_TICK: u64 = 10;

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

/// CPU time so far of a process and its children, including those that have ended.
pub(crate) fn cpu_with_children(pid: u32) -> anyhow::Result<Duration> {
    let mut sum = cpu(pid)?;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let of = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        // A process may end meanwhile.
        let (Some(of), Ok(stat)) = (of, fs::read_to_string(path.join("stat"))) else {
            continue;
        };
        // Behind the program's name: state and parent; the 13th and 14th are the CPU times of ended children.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<u64> = fields
            .split_whitespace()
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        if of == pid {
            let ticks: u64 = fields.iter().skip(13).take(2).sum();
            sum += Duration::from_millis(ticks * MILLIS_OF_TICK);
        } else if fields.get(1) == Some(&pid.into()) {
            sum += cpu_with_children(of).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// CPU time of all threads of a process so far.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.try_into()?))?;
    Ok(clock.now()?.into())
}
