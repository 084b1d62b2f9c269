//! Node plugin benchmark: the times of kubelet's calls beside their floors, the additional start
//! time of a pod with a claim, and the process's memory.
//!
//! ```text
//!   kubelet's part  ── gRPC ──► compute-domain-kubelet-plugin ──► API server, disk, tmpfs
//!   (this program)  ──────────── floor: the same GETs, raw durable writes ──►
//!   user (this program) ── pods ──► API server, scheduler, kubelet ──► the same plugin
//! ```
//!
//! It runs in the namespaces of a node, beside its real kubelet, with the plugin as a child process.
//! For the calls, it allocates the claims itself, each on another channel, so that a node can have
//! many; the scheduler allocates those of the pods.

mod guard;
mod idle_driver;
mod objects;
mod pods;
mod report;
mod start;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use tokio::runtime::Builder;

use self::objects::{DRIVER, IDLE_TEMPLATE, Objects, PREPARED, SHARED_TEMPLATE, TEMPLATE};
use self::pods::{BURST, Jobs, Pair};
use self::start::Setup;
use crate::plugin::{self, Call, Calls};

/// The number of starts for measuring the time to registration.
const STARTS: usize = 10;

/// The options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The node in whose namespaces this program runs.
    #[arg(long)]
    node: String,
    /// The plugin's program; by default the one beside this program.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// The root of the node's driver.
    #[arg(long, default_value = "/run/nvidia/driver")]
    driver_root: PathBuf,
    /// Pairs of pods, with and without a claim.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Pairs of twenty pods at once: with shares of the node's device, and without.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    bursts: u16,
    /// Pairs of two blocks of ten pods: with the guard, and without.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    guard: u16,
}

pub(crate) fn run(out: &mut impl Write, args: &Args, rounds: usize) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let client = runtime.block_on(Client::try_default())?;
    let scratch = tempfile::tempdir()?;
    let setup = Setup {
        program: match &args.plugin {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("compute-domain-kubelet-plugin"),
        },
        node: args.node.clone(),
        driver_root: args.driver_root.clone(),
        is_shared: false,
        is_guarded: false,
        log: scratch.path().join("plugin.log"),
    };
    let objects = runtime
        .block_on(Objects::create(&client, &args.node))
        .context("the cluster must be new")?;

    let mut starts = Vec::with_capacity(STARTS);
    for _ in 1..STARTS {
        let (plugin, took) = setup.start()?;
        starts.push(took);
        plugin.terminate()?;
    }
    let (plugin, took) = setup.start()?;
    starts.push(took);
    let mut memory = vec![("registered".to_owned(), plugin.memory()?)];

    let calls = Calls::new(&runtime, &client, &objects.claims, &plugin, Duration::ZERO)?;
    let mut rows = Vec::new();
    let mut prepared = 0;
    for size in PREPARED {
        calls.hold(prepared..size)?;
        prepared = size;
        rows.extend(calls.rows(&Call::ALL, size, rounds)?);
        memory.push((
            format!("{size} prepared, after the calls"),
            plugin.memory()?,
        ));
    }
    calls.release(prepared)?;
    let pods = runtime.block_on(pods::measure(
        &client,
        &args.node,
        args.pairs.into(),
        Jobs {
            pods: 1,
            template: TEMPLATE,
            floor: None,
        },
    ))?;
    memory.push(("after the pods".to_owned(), plugin.memory()?));
    plugin.terminate()?;
    // Before the device is shared: afterwards it drains for minutes, and no pod gets it.
    let guarded = guard::measure(&runtime, &client, &setup, TEMPLATE, args.guard.into())?;
    let shared = Setup {
        is_shared: true,
        ..setup.clone()
    };
    let (plugin, _) = shared.start()?;
    let (beside_none, beside_idle) = runtime.block_on(bursts(&client, args))?;
    memory.push(("after the bursts, shared".to_owned(), plugin.memory()?));
    plugin.terminate()?;

    let prepare = rows.first().map(|row| row.rounds.wall(50));
    plugin::report::calls(out, &rows, calls.filesystem)?;
    report::pods(out, &pods, prepare.context("no call was measured")?)?;
    report::bursts(out, &beside_none, &beside_idle)?;
    report::guarded(out, &guarded)?;
    report::starts(out, &starts)?;
    report::memory(out, &memory)
}

/// Pods that share the node's device, beside pods without claims, and beside pods with claims for a driver
/// that does nothing.
async fn bursts(client: &Client, args: &Args) -> anyhow::Result<(Vec<Pair>, Vec<Pair>)> {
    pods::until_shared(client, &args.node, DRIVER).await?;
    let jobs = |floor| Jobs {
        pods: BURST,
        template: SHARED_TEMPLATE,
        floor,
    };
    let pairs = args.bursts.into();
    let beside_none = pods::measure(client, &args.node, pairs, jobs(None)).await?;
    let idle = idle_driver::start(client, &args.node)?;
    pods::until_shared(client, &args.node, idle_driver::DRIVER).await?;
    let beside_idle = pods::measure(client, &args.node, pairs, jobs(Some(IDLE_TEMPLATE))).await?;
    idle.shutdown().await;
    Ok((beside_none, beside_idle))
}
