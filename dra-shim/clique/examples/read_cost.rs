//! Measures the cost of reading the fabric of this host:
//! `cargo run --release -p nvml-clique --example read_cost [ROOT [READS]]`.

#![expect(clippy::print_stdout, reason = "the purpose of the program")]

use std::fs;
use std::time::{Duration, Instant};

use nvml_clique::{DriverRoot, FabricProbe, NvmlProbe};

fn main() {
    let mut args = std::env::args_os().skip(1);
    let root = DriverRoot::new(args.next().unwrap_or_else(|| "/".into()));
    let reads = args.next().and_then(|it| it.to_str()?.parse().ok());
    let reads: u32 = reads.unwrap_or(100).max(1);
    let probe = NvmlProbe::new(root);
    let mut times = Vec::new();
    let before = cpu_time();
    for _ in 0..reads {
        let began = Instant::now();
        match probe.read() {
            Ok(gpus) => times.push((began.elapsed(), gpus.len())),
            Err(error) => {
                println!("{error}");
                return;
            }
        }
    }
    let cpu = cpu_time().saturating_sub(before) / reads;
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).or_else(|| times.last());
    if let (Some((median, gpus)), Some((p99, _))) = (at(50), at(99)) {
        println!("{reads} reads of {gpus} GPUs: median {median:?}, p99 {p99:?}, CPU {cpu:?} each");
    }
}

/// The CPU time of this process: user and system, in ticks of 10 ms.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the name, in brackets, may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
