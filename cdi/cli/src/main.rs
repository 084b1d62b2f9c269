//! `cdi-gen`: examines a GPU host; only `generate` and `doctor --bundle` write files.
//!
//! ```text
//! args ──► commands ──► report ──► stdout: text or JSON
//!                  └──► Outcome or Failure ──► exit code, a line on stderr
//! ```
//!
//! Modules use each other downwards only: `main`, [`commands`], what they share
//! ([`host_specs`], [`output`], ...), the library crates.
//!
//! No command needs root, only the right to read the files that it is given.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod escape;
mod finding_text;
mod host_specs;
mod input;
mod outcome;
mod output;
mod selection;
mod terminal;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::Args;
use outcome::Failure;
use terminal::Stdout;

/// Bytes of output that are buffered, so that a long list is not written line by
/// line. A command flushes them before it writes to stderr.
const BUFFER: usize = 64 << 10;

fn main() -> ExitCode {
    // `gpus`, `generate gpu` and `doctor` start this program again to call NVML.
    if let Some(code) = nvml_session::serve_if_started() {
        return code;
    }
    let Args { command } = Args::parse();
    let mut stdout = BufWriter::with_capacity(BUFFER, Stdout::new(io::stdout().lock()));
    let done = commands::run(command, &mut stdout);
    // Before an error is reported.
    let flushed = stdout.flush().map_err(Failure::stdout);
    let done = done.and_then(|outcome| flushed.map(|()| outcome));
    let outcome = done.unwrap_or_else(|failure| {
        failure.report();
        failure.outcome
    });
    outcome.into()
}
