//! What was typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

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
        /// The checkpoint; /dev/stdin reads a pipe.
        file: PathBuf,
        /// Prints one JSON document instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Says of each file whether it is whole: "OK", or "CORRUPT" and what is
    /// wrong with it (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Verify {
        /// The checkpoints. All are looked at, also after one that cannot be
        /// read (exit code 3, whatever the others are).
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Writes to stdout the bytes that the plugin would write for the file's
    /// claims; refuses a damaged file (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Rewrite {
        /// The checkpoint; it is not changed.
        file: PathBuf,
    },
}
