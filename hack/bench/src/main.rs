//! Benchmarks. Times depend on the machine and the hour; so each subject runs
//! beside a floor, the least that any program must do for the same effect, and
//! what is judged is the ratio of the two, round by round.
//!
//! ```text
//! round 1: floor, subject    round 2: subject, floor    round 3: …
//!            └──────┴── one Sample of each ──┴── ratio of the round
//! ```

#![forbid(unsafe_code)]

mod checkpoint;
mod content;
mod disk;
mod rounds;
mod table;

use std::io;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use disk::Scratch;

/// Runs a benchmark and prints its table in Markdown.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
    /// Measured rounds of each row.
    #[arg(long, global = true, default_value_t = 100, value_parser = clap::value_parser!(u16).range(30..))]
    rounds: u16,
    /// A directory on a disk, for the files that are written.
    #[arg(long, global = true, default_value = "target")]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Reads and changes checkpoints of 1 to 1024 claims.
    Checkpoint,
}

fn main() -> anyhow::Result<()> {
    let Args {
        benchmark,
        rounds,
        dir,
    } = Args::parse();
    let scratch = Scratch::on_disk(&dir)?;
    let rows = match benchmark {
        Benchmark::Checkpoint => checkpoint::run(&scratch, rounds.into())?,
    };
    table::write(&mut io::stdout().lock(), &scratch, rounds.into(), &rows)?;
    Ok(())
}
