//! GPU plugin benchmark: the time from the plugin's start until its slices are published, the times of kubelet's
//! calls beside their floors, the process's memory and its requests, and with health checks also the time from an XID
//! to its taint, and the CPU time. With another program, also that program's.
//!
//! ```text
//!   kubelet's part  ── gRPC ──► gpu-kubelet-plugin ──► API server (audit log), disk, tmpfs
//!   (this program)                └──► mock host: NVML, /proc, /sys
//!        └──────────── floor: the same GETs, raw durable writes ──►
//!
//!   block 1: ours, other    block 2: other, ours    block 3: …
//! ```
//!
//! It runs in the namespaces of a node, beside its real kubelet, with the plugin as a child process. It allocates the
//! claims itself, each on another GPU.

mod block;
mod figures;
mod objects;
mod program;
mod slices;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use tokio::runtime::Builder;

use self::block::{Bench, Measured};
use self::objects::Claims;
use self::program::Program;
use self::slices::Slices;
use crate::accounts::{self, Account};
use crate::audit::AuditLog;
use crate::plugin;

/// The number of measured starts of each program.
const STARTS: u16 = 10;

/// The options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The node in whose namespaces this program runs.
    #[arg(long)]
    node: String,
    /// The API server's audit log with the plugin's requests.
    #[arg(long)]
    audit_log: PathBuf,
    /// The plugin's program; by default the one beside this program.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Another program to compare with. A script must end with exec: the process's memory is measured.
    #[arg(long)]
    other: Option<PathBuf>,
    /// The programs alternate this number of times. Starts and rounds are divided among the blocks.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=i64::from(STARTS)))]
    blocks: u16,
    /// Seconds of each block in which the plugin is idle.
    #[arg(long, default_value_t = 30)]
    idle: u16,
    /// Milliseconds between rounds: a program that limits the rate of its requests must not wait in measured calls.
    #[arg(long, default_value_t = 0)]
    pause: u16,
}

pub(crate) fn run(out: &mut impl Write, args: &Args, rounds: usize) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let client = runtime.block_on(Client::try_default())?;
    let scratch = tempfile::tempdir()?;
    let (account, claims) = runtime.block_on(async {
        let prepared = accounts::prepare(&client, []).await;
        prepared.context("the cluster must be new")?;
        let account = Account::create(&client, "plugin", scratch.path()).await?;
        anyhow::Ok((account, Claims::create(&client, &args.node).await?))
    })?;
    let own = match &args.plugin {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("gpu-kubelet-plugin"),
    };
    let programs: Vec<Program> = [("ours", Some(&own)), ("other", args.other.as_ref())]
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)))
        .map(|(name, path)| Program::new(name, path, &args.node, &account, scratch.path()))
        .collect::<anyhow::Result<_>>()?;
    let blocks = usize::from(args.blocks);
    let mut bench = Bench {
        runtime: &runtime,
        slices: Slices::new(&client, &args.node),
        client: client.clone(),
        audit: AuditLog::open(&args.audit_log)?,
        user: account.user.clone(),
        claims: &claims,
        starts: usize::from(STARTS).div_ceil(blocks),
        rounds: rounds.div_ceil(blocks),
        idle: Duration::from_secs(args.idle.into()),
        pause: Duration::from_millis(args.pause.into()),
    };
    let mut measured: Vec<Measured> = programs.iter().map(|_| Measured::default()).collect();
    for block in 0..blocks {
        let mut turns: Vec<_> = programs.iter().zip(&mut measured).collect();
        if block % 2 == 1 {
            turns.reverse();
        }
        for (program, measured) in turns {
            writeln!(
                io::stderr(),
                "block {} of {blocks}, {}",
                block + 1,
                program.name
            )?;
            let of_block = bench.block(program, measured);
            of_block.with_context(|| format!("block {}, {}", block + 1, program.name))?;
        }
    }
    for (program, measured) in programs.iter().zip(&measured) {
        writeln!(out, "{}: {}\n", program.name, program.path.display())?;
        plugin::report::calls(out, &measured.rows, measured.filesystem)?;
    }
    figures::write(out, &measured)
}
