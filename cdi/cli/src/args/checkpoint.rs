//! `cdi-gen checkpoint`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::host::KubeletRoot;
use super::values::{EXIT_CODES, file};

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Prints the claims; those that survive, if the file is damaged (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Show {
        /// The checkpoint; - reads standard input. By default, this node's.
        #[arg(value_parser = file(), conflicts_with_all = ["path", "root"])]
        file: Option<PathBuf>,
        #[command(flatten)]
        node: NodeCheckpoint,
        /// Prints one JSON document instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Checks that files are intact: prints "OK", or "CORRUPT" and what is wrong
    /// (exit code 1).
    #[command(after_help = EXIT_CODES)]
    Verify {
        /// The checkpoints; - is standard input. By default, this node's. All are
        /// checked, even if one cannot be read (then exit code 3, whatever the others
        /// are).
        #[arg(value_name = "FILE", value_parser = file(), conflicts_with_all = ["path", "root"])]
        files: Vec<PathBuf>,
        /// Prints the bytes that the plugin would write for the claims of one file
        /// instead: `verify --canonical FILE | cmp - FILE`. Never replace FILE by
        /// them while a plugin runs: claims that it prepares meanwhile would be lost.
        #[arg(long)]
        canonical: bool,
        #[command(flatten)]
        node: NodeCheckpoint,
    },
}

/// Where the node's checkpoint is.
#[derive(Debug, Args)]
pub(crate) struct NodeCheckpoint {
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    /// The host's root, without a FILE.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}
