//! `cdi-gen hook`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::channels::Channels;
use super::host::{KubeletRoot, SpecDirs};
use super::values::EXIT_CODES;

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    #[command(name = "createRuntime")]
    CreateRuntime(CreateRuntime),
}

/// Refuses a container that asks for an IMEX channel which it was not given.
///
/// For runtimes that have OCI hooks and no NRI. Reads the container's state on standard
/// input, as an OCI runtime writes it, and config.json of its bundle. Changes nothing, and
/// prints nothing on stdout; the reason for a refusal is on stderr, which runtimes show.
///
/// A channel is a pod's if a prepared claim of the pod opens it, and another container's if
/// --allow names it.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CreateRuntime {
    /// Channels for containers that are of no pod: numbers and ranges (0,3-7), or all.
    #[arg(long, value_name = "CHANNELS")]
    pub(crate) allow: Option<Channels>,
    /// A namespace whose pods are not judged, as that of the GPU operator. May be repeated.
    #[arg(long = "exempt-namespace", value_name = "NAMESPACE")]
    pub(crate) exempt_namespaces: Vec<String>,
    /// Tells on stderr what it would refuse, and lets every container start.
    #[arg(long)]
    pub(crate) warn: bool,
    /// Seconds until it gives up and refuses, whatever it waits for. Let the runtime's own
    /// timeout be longer.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) kubelet: KubeletRoot,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
}

/// 1 to 60.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|number| (1..=60).contains(number));
    let number = number.ok_or_else(|| format!("{text:?} is not a number of seconds from 1 to 60"));
    number.map(Duration::from_secs)
}
