//! kubelet's calls, each beside its floor.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;
use tokio::runtime::Runtime;

use super::floor::{Files, Floor};
use super::process::{Driver, Plugin};
use super::report::{Aim, Row};
use crate::dra_caller::Caller;
use crate::dra_proto as proto;
use crate::rounds::{Rounds, Sample, interleave_samples};
use crate::{disk, proc};

/// Claims in a call with many.
pub(crate) const BATCH: usize = 16;

pub(crate) struct Calls<'a> {
    runtime: &'a Runtime,
    driver: Driver,
    caller: Caller,
    floor: Floor,
    pid: u32,
    /// First the claims that stay prepared, then those of the measured calls.
    claims: &'a [proto::Claim],
    /// The time between rounds.
    pause: Duration,
    pub(crate) filesystem: &'static str,
}

/// A call of kubelet, and the call that undoes it.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Prepare,
    Again,
    Unprepare,
    PrepareMany,
    UnprepareMany,
}

// === impl Call ===

impl Call {
    pub(crate) const ALL: [Self; 5] = [
        Self::Prepare,
        Self::Again,
        Self::Unprepare,
        Self::PrepareMany,
        Self::UnprepareMany,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Prepare => "Prepare / GET, 2 checkpoints, spec",
            Self::Again => "the same again / GET",
            Self::Unprepare => "Unprepare / checkpoint",
            Self::PrepareMany => "Prepare of 16 / 16 GETs, 2 checkpoints",
            Self::UnprepareMany => "Unprepare of 16 / checkpoint",
        }
    }

    fn is_of_many(self) -> bool {
        matches!(self, Self::PrepareMany | Self::UnprepareMany)
    }

    /// The limit of its time.
    fn aim(self) -> Option<Aim> {
        let ms = Duration::from_millis(1);
        match self {
            Self::Prepare => Some(Aim::new(1.3, ms)),
            Self::Again => Some(Aim::new(1.0, ms)),
            Self::PrepareMany => Some(Aim::new(1.5, Duration::ZERO)),
            Self::Unprepare | Self::UnprepareMany => None,
        }
    }

    /// The limit of the plugin's CPU time with this number of prepared claims.
    fn cpu(self, prepared: usize) -> Option<Duration> {
        let limit = Duration::from_micros(if prepared > 16 { 3000 } else { 1500 });
        (!self.is_of_many()).then_some(limit)
    }
}

impl<'a> Calls<'a> {
    pub(crate) fn new(
        runtime: &'a Runtime,
        client: &Client,
        claims: &'a [proto::Claim],
        plugin: &Plugin,
        pause: Duration,
    ) -> anyhow::Result<Self> {
        let driver = plugin.driver;
        let socket = driver.socket().context("there is no service socket")?;
        Ok(Self {
            runtime,
            driver,
            caller: runtime.block_on(Caller::connect(&socket))?,
            floor: Floor::new(client.clone(), driver)?,
            pid: plugin.pid(),
            claims,
            pause,
            filesystem: disk::filesystem(&driver.data())?,
        })
    }

    /// Prepares these claims and keeps them prepared.
    pub(crate) fn hold(&self, claims: Range<usize>) -> anyhow::Result<()> {
        for claim in self.claims.get(claims).context("there are fewer claims")? {
            let one = std::slice::from_ref(claim);
            self.runtime.block_on(self.caller.prepare(one))?;
        }
        Ok(())
    }

    /// Unprepares the first claims.
    pub(crate) fn release(&self, claims: usize) -> anyhow::Result<()> {
        let held = self
            .claims
            .get(..claims)
            .context("there are fewer claims")?;
        self.runtime.block_on(self.caller.unprepare(held))
    }

    /// Measures each of the calls with this number of prepared claims.
    pub(crate) fn rows(
        &self,
        calls: &[Call],
        prepared: usize,
        rounds: usize,
    ) -> anyhow::Result<Vec<Row>> {
        let files = Files::read(
            self.driver,
            self.claims.first().context("there are no claims")?,
        )?;
        let row = |&call: &Call| {
            Ok(Row {
                prepared,
                checkpoint_bytes: files.checkpoint.len(),
                operation: call.name(),
                rounds: self.measure(call, &files, rounds)?,
                aim: call.aim(),
                cpu: call.cpu(prepared),
            })
        };
        calls.iter().map(row).collect()
    }

    /// Measures the Prepare of the last claim beside that of the claim before.
    pub(crate) fn compare(
        &self,
        operation: &'static str,
        prepared: usize,
        rounds: usize,
    ) -> anyhow::Result<Row> {
        let [held, .., floor, subject] = self.claims else {
            bail!("there are fewer claims");
        };
        let prepare = |claim| {
            let claims = std::slice::from_ref(claim);
            let sample = self.sample(|| self.runtime.block_on(self.caller.prepare(claims)))?;
            self.runtime.block_on(self.caller.unprepare(claims))?;
            Ok(sample)
        };
        let rounds = interleave_samples(
            rounds,
            || prepare(subject),
            || {
                thread::sleep(self.pause);
                prepare(floor)
            },
        )?;
        Ok(Row {
            prepared,
            checkpoint_bytes: Files::read(self.driver, held)?.checkpoint.len(),
            operation,
            rounds,
            aim: Some(Aim::new(1.0, Duration::from_millis(1))),
            cpu: None,
        })
    }

    fn measure(&self, call: Call, files: &Files, rounds: usize) -> anyhow::Result<Rounds> {
        let last = if call.is_of_many() { BATCH } else { 1 };
        let first = self.claims.len() - last;
        let claims = self.claims.get(first..).context("there are fewer claims")?;
        let prepare = || self.runtime.block_on(self.caller.prepare(claims));
        let unprepare = || self.runtime.block_on(self.caller.unprepare(claims));
        if matches!(call, Call::Again) {
            prepare()?;
        }
        let subject = || {
            Ok(match call {
                Call::Prepare | Call::PrepareMany => {
                    let sample = self.sample(prepare)?;
                    unprepare()?;
                    sample
                }
                Call::Again => self.sample(prepare)?,
                Call::Unprepare | Call::UnprepareMany => {
                    prepare()?;
                    self.sample(unprepare)?
                }
            })
        };
        let floor = || {
            thread::sleep(self.pause);
            let began = Instant::now();
            self.floor(call, claims, files)?;
            Ok(Sample {
                wall: began.elapsed(),
                ..Sample::default()
            })
        };
        let measured = interleave_samples(rounds, subject, floor)?;
        unprepare()?;
        Ok(measured)
    }

    fn floor(&self, call: Call, claims: &[proto::Claim], files: &Files) -> anyhow::Result<()> {
        if !matches!(call, Call::Unprepare | Call::UnprepareMany) {
            self.runtime.block_on(self.floor.get(claims))?;
        }
        match call {
            Call::Again => Ok(()),
            Call::Unprepare | Call::UnprepareMany => self.floor.write_checkpoint(files),
            Call::Prepare => {
                self.floor.write_checkpoint(files)?;
                self.floor.write_spec(files)?;
                self.floor.write_checkpoint(files)
            }
            Call::PrepareMany => {
                self.floor.write_checkpoint(files)?;
                self.floor.write_checkpoint(files)
            }
        }
    }

    /// The time of a call, and the plugin's CPU time for it.
    fn sample(&self, call: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<Sample> {
        let cpu = proc::cpu(self.pid)?;
        let began = Instant::now();
        call()?;
        let wall = began.elapsed();
        Ok(Sample {
            wall,
            cpu: proc::cpu(self.pid)?.saturating_sub(cpu),
            ..Sample::default()
        })
    }
}
