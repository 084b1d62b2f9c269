//! The command line, before anything is resolved.
//!
//! `hack/cli-docs` compiles this module by its path, to write completions and
//! man pages: it uses nothing else of this crate.

// Explicit: modules of a file that is included by path are searched beside it.
#[path = "args/channels.rs"]
mod channels;
#[path = "args/checkpoint.rs"]
mod checkpoint;
#[path = "args/doctor.rs"]
mod doctor;
#[path = "args/generate.rs"]
mod generate;
#[path = "args/hook.rs"]
mod hook;
#[path = "args/host.rs"]
mod host;
#[path = "args/pattern.rs"]
mod pattern;
#[path = "args/specs.rs"]
mod specs;
#[path = "args/values.rs"]
mod values;

use clap::{Parser, Subcommand};

pub(crate) use self::channels::Channels;
pub(crate) use self::checkpoint::{CheckpointCommand, NodeCheckpoint};
pub(crate) use self::doctor::Doctor;
pub(crate) use self::generate::{Format, Generate, MajorArg, Mode, OrAuto, OrMin};
pub(crate) use self::hook::{CreateRuntime, HookCommand};
pub(crate) use self::host::{KubeletRoot, SpecDirs};
pub(crate) use self::pattern::Wanted;
pub(crate) use self::specs::{Level, List, Show, Subject, Validate, Why};
pub(crate) use self::values::STDIN;

use self::values::EXIT_CODES;

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
    Why(Why),
    Doctor(Doctor),
    /// Reads the kubelet plugin's checkpoint: the claims prepared on this node.
    ///
    /// Without a FILE, this node's: plugins/compute-domain.nvidia.com/checkpoint.json
    /// below kubelet's root.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Guards the IMEX channels as a hook of an OCI runtime.
    #[command(subcommand)]
    Hook(HookCommand),
}
