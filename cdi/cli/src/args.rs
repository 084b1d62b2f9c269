//! What was typed.
//!
//! `hack/cli-docs` compiles this module by its path, to write completions and
//! man pages: it needs nothing else of this crate.

// Explicit, because a module that is included by path would look beside itself.
#[path = "args/channels.rs"]
mod channels;
#[path = "args/checkpoint.rs"]
mod checkpoint;
#[path = "args/doctor.rs"]
mod doctor;
#[path = "args/generate.rs"]
mod generate;
#[path = "args/specs.rs"]
mod specs;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Parser, Subcommand};
use imex_cdi::NameError;

pub(crate) use self::channels::Channels;
pub(crate) use self::checkpoint::CheckpointCommand;
pub(crate) use self::doctor::{DEFAULT_KUBELET_ROOT, Doctor, Gc, Watch};
pub(crate) use self::generate::{
    Devices, Format, Generate, MajorArg, Mode, NameStyle, OrAuto, OrMin,
};
pub(crate) use self::specs::{Diff, Inject, Level, List, Show, SpecDirs, Subject, Validate, Why};

/// What `-` stands for.
pub(crate) const STDIN: &str = "/dev/stdin";

const EXIT_CODES: &str = "\
Exit codes: 0 nothing is wrong, 1 something is (see the output), 2 wrong usage,
3 a file cannot be read or written, 4 a CDI name cannot be resolved.";

#[derive(Debug, Parser)]
#[command(
    name = "cdi-gen",
    version,
    about = "Debugs CDI devices, IMEX channels and ComputeDomains on a GPU host",
    after_help = EXIT_CODES
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Generate(Generate),
    List(List),
    Show(Show),
    Validate(Validate),
    Diff(Diff),
    Inject(Inject),
    Why(Why),
    Doctor(Doctor),
    Gc(Gc),
    Watch(Watch),
    /// The claims that the kubelet plugin has prepared on this node, from its
    /// checkpoint, usually
    /// /var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
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

/// A CDI name, or why it is none and what to do about it.
fn named<T: FromStr<Err = NameError>>(typed: &str) -> Result<T, String> {
    typed
        .parse()
        .map_err(|error: NameError| format!("{error}; {}", error.hint()))
}
