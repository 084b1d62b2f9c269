//! `cdi-gen checkpoint`.

use std::path::PathBuf;

use clap::Subcommand;

use super::{EXIT_CODES, file};

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
