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
mod diff;
mod document;
mod failure;
mod generate;
mod host_node;
mod inject;
mod list;
mod output;
mod paint;
mod printable;
mod reading;
mod root;
mod show;
mod table;
mod validate;
mod why;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::{Failure, Outcome};
use output::Output;

fn main() -> ExitCode {
    let mut output = Output::new(io::stdout().lock());
    let done = run(Args::parse(), &mut output)
        .and_then(|outcome| output.flush().map(|()| outcome).map_err(Failure::Output));
    match done {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => {
            failure.report();
            failure.exit_code()
        }
    }
}

fn run(args: Args, output: &mut impl Write) -> Result<Outcome, Failure> {
    let Args { command } = args;
    match command {
        Command::Generate(args) => generate::run(args, output),
        Command::List(args) => list::run(args, output),
        Command::Show(args) => show::run(args, output),
        Command::Validate(args) => validate::run(args, output),
        Command::Diff(args) => diff::run(args, output),
        Command::Inject(args) => inject::run(args, output),
        Command::Why(args) => why::run(args, output),
        Command::Checkpoint(command) => checkpoint::run(command, output),
    }
}
