//! The tables of the node plugin.

use std::io::Write;
use std::time::Duration;

use super::guard::{BlockPair, PODS};
use super::pods::{BURST, Pair};
use super::start::Started;
use crate::plugin::Memory;
use crate::rounds::{Rounds, percentile};
use crate::table::{ms, verdict};

/// The limit of anonymous memory, in KiB.
const MEMORY_KIB: u64 = 4 * 1024;
/// The limit for a claim's effect on a pod's start time, in addition to a Prepare.
const POD_OVER_PREPARE: Duration = Duration::from_millis(30);
/// The limit for the effect of claims on the start time of many pods at once.
const BURST_RATIO: f64 = 1.2;
/// The limit for the guard's effect on a container's start time.
const GUARD: Duration = Duration::from_millis(5);

/// `prepare` is the median of one Prepare with few claims.
pub(super) fn pods(out: &mut impl Write, pairs: &[Pair], prepare: Duration) -> anyhow::Result<()> {
    let seconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let mut more: Vec<f64> = pairs
        .iter()
        .map(|pair| seconds(pair.with) - seconds(pair.floor))
        .collect();
    more.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let rank = (more.len() * percent).div_ceil(100).saturating_sub(1);
        more.get(rank).copied().unwrap_or(f64::NAN)
    };
    let aim = seconds(prepare + POD_OVER_PREPARE);
    writeln!(
        out,
        "{} pairs of pods, from the request that creates one until a watch says Running; ms; more: of one pair\n\n\
         | with a claim, median | p99 | without | p99 | more, median | p10-p90 | aim: Prepare + 30 | |\n\
         |--:|--:|--:|--:|--:|--:|--:|---|\n\
         | {} | {} | {} | {} | {:.1} | {:.1}-{:.1} | {aim:.1} | {} |\n",
        pairs.len(),
        ms(percentile(pairs.iter().map(|pair| pair.with), 50)),
        ms(percentile(pairs.iter().map(|pair| pair.with), 99)),
        ms(percentile(pairs.iter().map(|pair| pair.floor), 50)),
        ms(percentile(pairs.iter().map(|pair| pair.floor), 99)),
        at(50),
        at(10),
        at(90),
        verdict(at(50) <= aim),
    )?;
    Ok(())
}

/// Pods that start together and share the node's device.
pub(super) fn bursts(
    out: &mut impl Write,
    beside_none: &[Pair],
    beside_idle: &[Pair],
) -> anyhow::Result<()> {
    writeln!(
        out,
        "{} pairs of {BURST} pods that start together on one node, until all run; ms; ratio: of one pair\n\n\
         | with shares of the device, beside | median | slowest | those | ratio, median | p10-p90 | aim | |\n\
         |---|--:|--:|--:|--:|--:|--:|---|",
        beside_none.len(),
    )?;
    let rows = [
        ("pods without claims", beside_none, Some(BURST_RATIO)),
        ("shares of a driver that does nothing", beside_idle, None),
    ];
    for (beside, pairs, aim) in rows {
        let rounds = Rounds::of_times(pairs.iter().map(|pair| (pair.with, pair.floor)));
        let ratio = rounds.ratio(50);
        writeln!(
            out,
            "| {beside} | {} | {} | {} | {ratio:.2} | {:.2}-{:.2} | {} | {} |",
            ms(rounds.wall(50)),
            ms(rounds.wall(100)),
            ms(rounds.floor()),
            rounds.ratio(10),
            rounds.ratio(90),
            aim.map(|aim| format!("{aim:.2}")).unwrap_or_default(),
            aim.map_or("", |aim| verdict(ratio <= aim)),
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// The guard, with pods that have their own claim.
pub(super) fn guarded(out: &mut impl Write, turns: &[BlockPair]) -> anyhow::Result<()> {
    let rounds = Rounds::of_times(turns.iter().map(|turn| (turn.guarded, turn.floor)));
    let is_met = rounds.wall(50) <= rounds.floor() + GUARD;
    writeln!(
        out,
        "{} turns of two blocks of {PODS} pods with a claim, one after the other; kubelet's mean of creating and starting a container; ms\n\n\
         | guarded, median of blocks | off | ratio of a turn, median | p10-p90 | aim: off + 5 | |\n|--:|--:|--:|--:|--:|---|\n\
         | {} | {} | {:.2} | {:.2}-{:.2} | {} | {} |\n",
        turns.len(),
        ms(rounds.wall(50)),
        ms(rounds.floor()),
        rounds.ratio(50),
        rounds.ratio(10),
        rounds.ratio(90),
        ms(rounds.floor() + GUARD),
        verdict(is_met),
    )?;
    Ok(())
}

pub(super) fn starts(out: &mut impl Write, starts: &[Started]) -> anyhow::Result<()> {
    let listens = |percent| percentile(starts.iter().map(|start| start.listens), percent);
    let registered = |percent| percentile(starts.iter().map(|start| start.registered), percent);
    writeln!(
        out,
        "{} starts; ms from exec, seen to a millisecond; kubelet looks for new sockets once a second\n\n\
         | sockets open, median | slowest | registered, median | slowest |\n|--:|--:|--:|--:|\n| {} | {} | {} | {} |\n",
        starts.len(),
        ms(listens(50)),
        ms(listens(100)),
        ms(registered(50)),
        ms(registered(100)),
    )?;
    Ok(())
}

pub(super) fn memory(out: &mut impl Write, rows: &[(String, Memory)]) -> anyhow::Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let mib = |kib: u64| format!("{:.2}", kib as f64 / 1024.0);
    writeln!(
        out,
        "Memory in MiB; VmHWM: the largest so far, with the pages of the program's file\n\n\
         | when | RssAnon | aim | | VmHWM |\n|---|--:|--:|---|--:|"
    )?;
    for (when, Memory { anonymous, peak }) in rows {
        writeln!(
            out,
            "| {when} | {} | {} | {} | {} |",
            mib(*anonymous),
            mib(MEMORY_KIB),
            verdict(*anonymous <= MEMORY_KIB),
            mib(*peak),
        )?;
    }
    Ok(())
}
