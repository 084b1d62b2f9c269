//! Benchmarks. Absolute times depend on the machine and its load. So each subject runs
//! beside a floor, the minimum that any program must do for the same effect. The verdict
//! is on the ratio of both in each round; times are only recorded.
//!
//! ```text
//! round 1: floor, subject    round 2: subject, floor    round 3: …
//!            └──────┴── one Sample of each ──┴── ratio of the round
//! ```

#![forbid(unsafe_code)]

mod accounts;
mod audit;
mod cdi;
mod checkpoint;
mod content;
mod controller;
mod create;
mod disk;
mod dra_caller;
mod dra_proto;
mod gpus;
mod kubeconfig;
mod kubelet;
mod node;
mod plugin;
mod proc;
mod rounds;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use disk::Scratch;

/// Runs a benchmark and prints its table in Markdown.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
    /// Number of measured rounds for each row; the controller's number depends on the size.
    #[arg(long, global = true, default_value_t = 100, value_parser = clap::value_parser!(u16).range(30..))]
    rounds: u16,
    /// Directory on a disk for the written files.
    #[arg(long, global = true, default_value = "target")]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Reads and changes checkpoints of 1 to 1024 claims.
    Checkpoint,
    /// Reads, writes and injects CDI specs, and runs cdi-gen.
    Cdi,
    /// Calls dra-kubelet and a bare gRPC server, and measures the example driver's memory.
    Kubelet,
    /// Calls the node plugin as kubelet does, on a node of a real cluster, and starts pods there.
    Node(node::Args),
    /// Starts the GPU plugin on a node of a real cluster with mock GPUs, and calls it as kubelet does.
    Gpus(gpus::Args),
    /// Lets the controller create and delete many domains on a real API server.
    Controller(controller::Args),
    /// The floor of `controller`, in its own process like the controller.
    #[command(hide = true)]
    ControllerFloor(controller::FloorArgs),
    /// Parses the spec FILE and prints how many bytes of memory that took. `cdi` runs it as a
    /// separate process, because peak memory is measured per process.
    #[command(hide = true)]
    Peak { file: PathBuf },
}

fn main() -> anyhow::Result<()> {
    let Args {
        benchmark,
        rounds,
        dir,
    } = Args::parse();
    let rounds = rounds.into();
    let out = &mut io::stdout().lock();
    match benchmark {
        Benchmark::Checkpoint => {
            let scratch = Scratch::on_disk(&dir)?;
            let rows = checkpoint::run(&scratch, rounds)?;
            table::write(out, &scratch, rounds, &rows)?;
        }
        Benchmark::Cdi => {
            let scratch = Scratch::on_disk(&dir)?;
            let (rows, facts) = cdi::run(&scratch, rounds)?;
            table::write(out, &scratch, rounds, &rows)?;
            table::write_facts(out, &facts)?;
        }
        Benchmark::Kubelet => kubelet::run(out, rounds)?,
        Benchmark::Node(args) => node::run(out, &args, rounds)?,
        Benchmark::Gpus(args) => gpus::run(out, &args, rounds)?,
        Benchmark::Controller(args) => controller::run(out, args)?,
        Benchmark::ControllerFloor(args) => controller::run_floor(args.at_once.into())?,
        Benchmark::Peak { file } => writeln!(out, "{}", cdi::peak_of_parsing(&file)?)?,
    }
    Ok(())
}
