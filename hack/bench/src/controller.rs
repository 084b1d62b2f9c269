//! Controller benchmark: the time from the user's first request until all N domains are Ready, and
//! until the last one is deleted, the requests, and the process's CPU time and memory.
//!
//! ```text
//!   user ─── creates, deletes, watches ───► API server ◄─── subject: compute-domain-controller
//!  (this program)                               │      ◄─── floor: the same writes, no decisions
//!                                               └─► audit log: requests by user
//! ```
//!
//! Rounds of floor and subject alternate; a round's ratio is to the mean of the floors before and
//! after it.

mod floor;
mod measured;
mod objects;
mod program;
mod report;
mod round;
mod settled;
mod user;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use kube::Client;
use tokio::runtime::Builder;

use crate::accounts::{self, Account};
use crate::audit::AuditLog;
use measured::{Phase, Round, Size};
use objects::{NAMESPACES, namespace};
use program::Which;
use round::Bench;
use user::User;

pub(crate) use floor::run as run_floor;

/// The target for the number of domains that all rounds of a size create together; the number of
/// rounds is limited.
const DOMAINS: usize = 600;
const MOST_ROUNDS: usize = 5;

/// The options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Numbers of domains, one row each.
    #[arg(long, value_delimiter = ',', default_value = "60,200,2000,10000", value_parser = clap::value_parser!(u32).range(10..))]
    sizes: Vec<u32>,
    #[command(flatten)]
    floor: FloorArgs,
    /// The controller's program; by default the one beside this program.
    #[arg(long)]
    controller: Option<PathBuf>,
    /// The API server's audit log with the requests of both.
    #[arg(long)]
    audit_log: PathBuf,
}

/// The options of the floor.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct FloorArgs {
    /// How many domains the floor handles at the same time: as many as the controller.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) at_once: u16,
}

pub(crate) fn run(out: &mut impl Write, args: Args) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let at_once = args.floor.at_once;
    let sizes = runtime.block_on(measure(args))?;
    report::write(out, at_once, &sizes)
}

async fn measure(args: Args) -> anyhow::Result<Vec<Size>> {
    let mut bench = Bench::prepare(&args).await?;
    let mut sizes = Vec::with_capacity(args.sizes.len());
    for size in args.sizes {
        sizes.push(bench.size(size.try_into()?).await?);
    }
    Ok(sizes)
}

impl Bench {
    async fn prepare(args: &Args) -> anyhow::Result<Self> {
        let controller = match &args.controller {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("compute-domain-controller"),
        };
        let admin = Client::try_default().await?;
        let scratch = tempfile::tempdir()?;
        accounts::prepare(&admin, (0..NAMESPACES).map(namespace))
            .await
            .context("the cluster must be new")?;
        Ok(Self {
            subject: Account::create(&admin, "subject", scratch.path()).await?,
            floor: Account::create(&admin, "floor", scratch.path()).await?,
            audit: AuditLog::open(&args.audit_log)?,
            user: User::new(admin),
            controller,
            at_once: args.floor.at_once.into(),
            scratch,
        })
    }

    async fn size(&mut self, domains: usize) -> anyhow::Result<Size> {
        let rounds = (DOMAINS / domains).clamp(1, MOST_ROUNDS);
        let mut size = Size {
            domains,
            subject: Vec::with_capacity(rounds),
            floor: Vec::with_capacity(rounds + 1),
        };
        size.floor.push(
            self.round_with_progress(Which::Floor, domains, false)
                .await?,
        );
        for round in 0..rounds {
            size.subject.push(
                self.round_with_progress(Which::Subject, domains, round == 0)
                    .await?,
            );
            size.floor.push(
                self.round_with_progress(Which::Floor, domains, false)
                    .await?,
            );
        }
        Ok(size)
    }

    /// Runs a round and prints a line to standard error: larger sizes take minutes.
    async fn round_with_progress(
        &mut self,
        which: Which,
        size: usize,
        rest: bool,
    ) -> anyhow::Result<Round> {
        let round = self.round(which, size, rest).await;
        let round = round.with_context(|| format!("{which:?} with {size} domains"))?;
        let seconds = |phase: &Phase| phase.wall.as_secs_f64();
        writeln!(
            std::io::stderr(),
            "{size} domains, {which:?}: Ready after {:.2} s, deleted after {:.2} s",
            seconds(&round.create),
            seconds(&round.delete),
        )?;
        Ok(round)
    }
}
