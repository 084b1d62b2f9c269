//! Measures subject and floor in rounds.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use crate::proc;

/// Rounds before the measured ones, to warm up caches, allocator and disk.
const WARM_UP: usize = 5;

/// One call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) wall: Duration,
    /// CPU time of all threads of the process, and of the programs that it waited for.
    pub(crate) cpu: Duration,
    /// Bytes written with write(2).
    pub(crate) written: u64,
}

/// The measured rounds, in order.
#[derive(Debug)]
pub(crate) struct Rounds {
    subject: Vec<Sample>,
    floor: Vec<Sample>,
}

/// The number of times that [`interleave`] calls each of the two.
pub(crate) fn calls(rounds: usize) -> usize {
    WARM_UP + rounds
}

/// Runs both in every round, alternating which comes first, so that disturbances affect both.
pub(crate) fn interleave(
    rounds: usize,
    mut subject: impl FnMut() -> anyhow::Result<()>,
    mut floor: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Rounds> {
    interleave_samples(rounds, || time(&mut subject), || time(&mut floor))
}

/// Like [`interleave`], but the two measure themselves, so that each can also do unmeasured work.
pub(crate) fn interleave_samples(
    rounds: usize,
    mut subject: impl FnMut() -> anyhow::Result<Sample>,
    mut floor: impl FnMut() -> anyhow::Result<Sample>,
) -> anyhow::Result<Rounds> {
    let mut measured = Rounds {
        subject: Vec::with_capacity(rounds),
        floor: Vec::with_capacity(rounds),
    };
    for round in 0..calls(rounds) {
        let (one, other);
        if round % 2 == 0 {
            other = floor()?;
            one = subject()?;
        } else {
            one = subject()?;
            other = floor()?;
        }
        if round >= WARM_UP {
            measured.subject.push(one);
            measured.floor.push(other);
        }
    }
    Ok(measured)
}

fn time(call: &mut impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Sample> {
    let written = written()?;
    let cpu = cpu()?;
    let start = Instant::now();
    call()?;
    let wall = start.elapsed();
    let cpu = self::cpu()?.saturating_sub(cpu);
    Ok(Sample {
        wall,
        cpu,
        written: self::written()? - written,
    })
}

fn cpu() -> anyhow::Result<Duration> {
    let own: Duration = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into();
    let children = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = (children.user_time() + children.system_time()).num_microseconds();
    Ok(own + Duration::from_micros(micros.try_into()?))
}

/// Bytes that this process has passed to write(2) so far.
fn written() -> anyhow::Result<u64> {
    proc::number("/proc/self/io", "wchar")
}

// === impl Rounds ===

impl Rounds {
    /// Rounds from times of (subject, floor) only.
    pub(crate) fn of_times(rounds: impl IntoIterator<Item = (Duration, Duration)>) -> Self {
        let sample = |wall| Sample {
            wall,
            ..Sample::default()
        };
        let samples = rounds.into_iter();
        let (subject, floor) = samples
            .map(|(one, other)| (sample(one), sample(other)))
            .unzip();
        Self { subject, floor }
    }

    /// Adds later rounds of the same two.
    pub(crate) fn extend(&mut self, later: Self) {
        self.subject.extend(later.subject);
        self.floor.extend(later.floor);
    }

    /// The `percent`-th percentile of the subject's times.
    pub(crate) fn wall(&self, percent: usize) -> Duration {
        percentile(self.subject.iter().map(|s| s.wall), percent)
    }

    /// The median of the subject's CPU times.
    pub(crate) fn cpu(&self) -> Duration {
        percentile(self.subject.iter().map(|s| s.cpu), 50)
    }

    /// Bytes written by one call of the subject, on average.
    pub(crate) fn written(&self) -> u64 {
        let calls = self.subject.len().max(1) as u64;
        self.subject.iter().map(|s| s.written).sum::<u64>() / calls
    }

    /// The median of the floor's times.
    pub(crate) fn floor(&self) -> Duration {
        percentile(self.floor.iter().map(|s| s.wall), 50)
    }

    /// The `percent`-th percentile of subject minus floor in the same round; zero if the
    /// subject was faster.
    pub(crate) fn over(&self, percent: usize) -> Duration {
        let rounds = self.subject.iter().zip(&self.floor);
        percentile(rounds.map(|(s, f)| s.wall.saturating_sub(f.wall)), percent)
    }

    /// The `percent`-th percentile of the ratio of subject to floor in the same round.
    pub(crate) fn ratio(&self, percent: usize) -> f64 {
        let rounds = self.subject.iter().zip(&self.floor);
        let ratios = rounds.map(|(s, f)| s.wall.as_secs_f64() / f.wall.as_secs_f64());
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        pick(&ratios, percent).unwrap_or(f64::NAN)
    }
}

/// The percentile by nearest rank; zero if there are no times.
pub(crate) fn percentile(times: impl Iterator<Item = Duration>, percent: usize) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    pick(&times, percent).unwrap_or_default()
}

/// The percentile by nearest rank; `None` if there are no values.
fn pick<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let sorted: Vec<u32> = (1..=100).collect();
        assert_eq!(pick(&sorted, 50), Some(50));
        assert_eq!(pick(&sorted, 99), Some(99));
        assert_eq!(pick(&[7], 99), Some(7));
        assert_eq!(pick(&[1, 2, 3], 50), Some(2));
        assert_eq!(pick::<u32>(&[], 50), None);
    }

    #[test]
    fn each_round_runs_both_and_the_first_rounds_do_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let rounds = interleave(
            30,
            || {
                order.borrow_mut().push('s');
                Ok(())
            },
            || {
                order.borrow_mut().push('f');
                Ok(())
            },
        )
        .unwrap();
        assert!(order.borrow().starts_with("fssffssf"));
        assert_eq!(order.borrow().len(), 2 * (WARM_UP + 30));
        assert_eq!((rounds.subject.len(), rounds.floor.len()), (30, 30));
    }
}
