//! `cdi-gen`: looks at what runs on a GPU host, and changes nothing.
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
mod failure;
mod output;
mod printable;

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
        Command::Checkpoint(command) => checkpoint::run(command, output),
    }
}
