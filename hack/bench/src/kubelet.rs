//! dra-kubelet benchmark: its overhead over a bare gRPC call, the spread of times of 200 concurrent
//! calls, and a driver's memory.
//!
//! ```text
//!            ┌─ unix socket ─► dra-kubelet ─► a driver that answers at once
//!   caller ──┤                 (own threads)  claims from memory
//!            └─ unix socket ─► tonic ───────► the same answer
//! ```

mod api;
mod claim;
mod memory;
mod servers;

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;

use crate::dra_caller::Caller;
use crate::rounds::{Rounds, interleave};
use crate::table::verdict;
use claim::{AT_ONCE, at_once, prepare};
use memory::Memory;
use servers::Servers;

/// The limit for the median overhead of a call over the floor.
const OVER_FLOOR: Duration = Duration::from_micros(300);
/// The limit for the ratio of the slowest to the median concurrent call.
const SLOWEST: f64 = 5.0;
/// Calls per round: the number of rounds is chosen for disk writes, and calls are much shorter.
const CALLS_PER_ROUND: usize = 10;

pub(crate) fn run(out: &mut impl Write, rounds: usize) -> anyhow::Result<()> {
    let servers = Servers::start()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let subject = runtime.block_on(Caller::connect(&servers.subject()?))?;
    let floor = runtime.block_on(Caller::connect(&servers.floor()))?;

    let mut count = 0;
    let one = interleave(
        rounds * CALLS_PER_ROUND,
        || {
            count += 1;
            runtime.block_on(prepare(&subject, count))
        },
        || runtime.block_on(prepare(&floor, 0)),
    )?;
    let mut spread = Spread::default();
    for round in 0..rounds {
        let first = round * AT_ONCE;
        if round % 2 == 0 {
            spread.floor(runtime.block_on(at_once(&floor, first))?);
            spread.subject(runtime.block_on(at_once(&subject, first))?);
        } else {
            spread.subject(runtime.block_on(at_once(&subject, first))?);
            spread.floor(runtime.block_on(at_once(&floor, first))?);
        }
    }
    drop((subject, floor));
    let memory = runtime.block_on(Memory::of_the_example())?;

    one_call(out, &one)?;
    spread.write(out)?;
    memory.write(out)
}

fn one_call(out: &mut impl Write, rounds: &Rounds) -> anyhow::Result<()> {
    let us = |time: Duration| time.as_micros();
    writeln!(
        out,
        "One Prepare of one claim, times in us; over: subject minus floor of the same round\n\n\
         | subject | median | p99 | floor | over, median | p10-p90 | CPU | aim | |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|---|\n\
         | dra-kubelet / tonic | {} | {} | {} | {} | {}-{} | {} | {} | {} |\n",
        us(rounds.wall(50)),
        us(rounds.wall(99)),
        us(rounds.floor()),
        us(rounds.over(50)),
        us(rounds.over(10)),
        us(rounds.over(90)),
        us(rounds.cpu()),
        us(OVER_FLOOR),
        verdict(rounds.over(50) <= OVER_FLOOR),
    )?;
    Ok(())
}

/// The ratio of the slowest call to the median call, for each round.
#[derive(Default)]
struct Spread {
    subject: Vec<f64>,
    floor: Vec<f64>,
    /// The subject's medians, in seconds.
    medians: Vec<f64>,
}

impl Spread {
    fn subject(&mut self, mut times: Vec<Duration>) {
        times.sort();
        let (ratio, median) = slowest_by_median(&times);
        self.subject.push(ratio);
        self.medians.push(median);
    }

    fn floor(&mut self, mut times: Vec<Duration>) {
        times.sort();
        self.floor.push(slowest_by_median(&times).0);
    }

    fn write(mut self, out: &mut impl Write) -> anyhow::Result<()> {
        let worst = worst(&mut self.subject)?;
        let floor = self::worst(&mut self.floor)?;
        writeln!(
            out,
            "{AT_ONCE} Prepares of different claims at once, on one connection; slowest by median, of each round\n\n\
             | subject | median call, ms | slowest / median, p50 | worst round | floor, p50 | worst | aim | |\n\
             |---|--:|--:|--:|--:|--:|--:|---|\n\
             | dra-kubelet / tonic | {:.2} | {:.2} | {worst:.2} | {:.2} | {floor:.2} | {SLOWEST:.1} | {} |\n",
            middle(&mut self.medians) * 1000.0,
            middle(&mut self.subject),
            middle(&mut self.floor),
            verdict(worst <= SLOWEST),
        )?;
        Ok(())
    }
}

fn slowest_by_median(sorted: &[Duration]) -> (f64, f64) {
    let at = |index: usize| sorted.get(index).map_or(f64::NAN, Duration::as_secs_f64);
    let (median, slowest) = (at(sorted.len() / 2), at(sorted.len().saturating_sub(1)));
    (slowest / median, median)
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn worst(values: &mut [f64]) -> anyhow::Result<f64> {
    values.sort_by(f64::total_cmp);
    values.last().copied().context("there were no rounds")
}
