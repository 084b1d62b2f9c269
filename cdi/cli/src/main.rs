//! `cdi-gen`: looks at what runs on a GPU host; changes only what it is asked to.
//!
//! ```text
//! main ──► commands ──► shared: input, report, outcome, ... ──► the library crates
//!
//! args ──► a command ──► report ──► stdout: text or JSON
//!                   └──► Outcome or Failure ──► exit code, a line on stderr
//! ```
//!
//! No command needs root, only the right to read the files that are named.

#![forbid(unsafe_code)]

mod args;
mod checkpoint;
mod diff;
mod difference;
mod doctor;
mod document;
mod escape;
mod explanation;
mod gc;
mod generate;
mod inject;
mod list;
mod outcome;
mod output;
mod reading;
mod show;
mod spec_dirs;
mod stderr;
mod stdout;
mod style;
mod table;
mod validate;
mod version;
mod watch;
mod why;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use outcome::{Failure, Outcome};
use stdout::Stdout;

/// Bytes of output that are buffered, so that a long list is not written line by
/// line. A command that goes on to stderr flushes them first.
const BUFFER: usize = 64 << 10;

fn main() -> ExitCode {
    let args = Args::parse();
    let mut stdout = BufWriter::with_capacity(BUFFER, Stdout::new(io::stdout().lock()));
    let done = run(args, &mut stdout);
    // The output that there is comes before the reason why there is no more.
    let flushed = stdout.flush().map_err(Failure::stdout);
    let done = done.and_then(|outcome| flushed.map(|()| outcome));
    let outcome = done.unwrap_or_else(|failure| {
        failure.report();
        failure.outcome()
    });
    outcome.into()
}

fn run(args: Args, stdout: &mut BufWriter<Stdout<impl Write>>) -> Result<Outcome, Failure> {
    let Args { command } = args;
    match command {
        Command::Generate(args) => generate::run(args, stdout),
        Command::List(args) => list::run(args, stdout),
        Command::Show(args) => show::run(args, stdout),
        Command::Validate(args) => validate::run(args, stdout),
        Command::Diff(args) => diff::run(args, stdout),
        Command::Inject(args) => inject::run(args, stdout),
        Command::Why(args) => why::run(args, stdout),
        Command::Doctor(args) => doctor::run(&args, stdout),
        Command::Gc(args) => gc::run(&args, stdout),
        Command::Watch(args) => watch::run(&args, stdout),
        Command::Checkpoint(command) => checkpoint::run(command, stdout),
    }
}
