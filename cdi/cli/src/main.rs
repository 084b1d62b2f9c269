//! `cdi-gen`: looks at what runs on a GPU host, and changes only what it is told to.
//!
//! ```text
//! Args (what was typed) ──► a command ──► stdout: data     Outcome ──► exit code
//!                                     └─► Failure ──► stderr: one line and its fix
//! ```
//!
//! Nothing here needs root but the right to read the files that are named.

#![forbid(unsafe_code)]

mod args;
mod checkpoint;
mod claims;
mod diff;
mod doctor;
mod document;
mod failure;
mod gc;
mod generate;
mod host;
mod host_node;
mod inject;
mod list;
mod majors;
mod output;
mod paint;
mod printable;
mod reading;
mod root;
mod show;
mod table;
mod validate;
mod watch;
mod why;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::{Failure, Outcome};
use output::Output;

/// Bytes of output that are held back, so that a long list is not written line
/// by line. A command that goes on to stderr lets them go first.
const BUFFER: usize = 64 << 10;

fn main() -> ExitCode {
    let args = Args::parse();
    let mut output = BufWriter::with_capacity(BUFFER, Output::new(io::stdout().lock()));
    let done = run(args, &mut output);
    // What there is comes before why there is no more.
    let flushed = output.flush().map_err(Failure::Output);
    match done.and_then(|outcome| flushed.map(|()| outcome)) {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => {
            failure.report();
            failure.exit_code()
        }
    }
}

fn run(args: Args, output: &mut BufWriter<Output<impl Write>>) -> Result<Outcome, Failure> {
    let Args { command } = args;
    match command {
        Command::Generate(args) => generate::run(args, output),
        Command::List(args) => list::run(args, output),
        Command::Show(args) => show::run(args, output),
        Command::Validate(args) => validate::run(args, output),
        Command::Diff(args) => diff::run(args, output),
        Command::Inject(args) => inject::run(args, output),
        Command::Why(args) => why::run(args, output),
        Command::Doctor(args) => doctor::run(&args, output),
        Command::Gc(args) => gc::run(&args, output),
        Command::Watch(args) => watch::run(&args, output),
        Command::Checkpoint(command) => checkpoint::run(command, output),
    }
}
