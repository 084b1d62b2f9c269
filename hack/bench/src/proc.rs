//! Figures of a process from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// The length of a tick in `/proc/PID/stat`: the kernel gives 100 in a second to all programs,
/// whatever it uses itself.
const TICK: Duration = Duration::from_millis(10);

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

/// CPU time of all threads of a process so far, in steps of 10 ms.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The program's name before it may have spaces. Then the third field comes first: utime is
    // the 14th, stime the 15th.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields);
    let mut times = fields
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2);
    let mut ticks = || times.next().and_then(|ticks| ticks.parse::<u32>().ok());
    let (Some(user), Some(system)) = (ticks(), ticks()) else {
        anyhow::bail!("{path} has no times");
    };
    Ok(TICK * (user + system))
}
