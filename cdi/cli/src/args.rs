//! What was typed.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Parser, Subcommand};

/// What `-` stands for.
pub(crate) const STDIN: &str = "/dev/stdin";

const EXIT_CODES: &str = "\
Exit codes: 0 nothing is wrong, 1 something is (see the output), 2 wrong usage,
3 a file cannot be read or the output not be written.";

#[derive(Debug, Parser)]
#[command(
    name = "cdi-gen",
    version,
    about = "Debugs ComputeDomains on a GPU host",
    after_help = EXIT_CODES
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The claims that the kubelet plugin has prepared on this node, from its
    /// checkpoint, usually
    /// /var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Prints the claims; of a damaged file, those that survive (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Show {
        /// The checkpoint; - reads standard input.
        #[arg(value_parser = file())]
        file: PathBuf,
        /// Prints one JSON document instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Says of each file whether it is whole: "OK", or "CORRUPT" and what is
    /// wrong with it (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Verify {
        /// The checkpoints; - is standard input. All are looked at, also after
        /// one that cannot be read (exit code 3, whatever the others are).
        #[arg(required = true, value_name = "FILE", value_parser = file())]
        files: Vec<PathBuf>,
    },
    /// Writes to stdout the bytes that the plugin would write for the file's
    /// claims; refuses a damaged file (exit code 1).
    ///
    /// They are for comparing with the file's own:
    ///
    /// `cdi-gen checkpoint rewrite FILE | cmp - FILE`
    ///
    /// Never write `rewrite FILE > FILE`: the shell empties FILE before cdi-gen
    /// reads it. And do not put the output in FILE's place while a plugin runs:
    /// claims that the plugin prepares meanwhile would be lost. No file needs
    /// it: the plugin itself reads old layouts and rewrites them.
    #[command(after_help = EXIT_CODES)]
    Rewrite {
        /// The checkpoint, which is not changed; - reads standard input.
        #[arg(value_parser = file())]
        file: PathBuf,
    },
}

fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|typed| {
        if typed == Path::new("-") {
            PathBuf::from(STDIN)
        } else {
            typed
        }
    })
}
