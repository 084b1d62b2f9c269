//! A plugin of NRI that gives a pod the IMEX channel that its annotation names, for nodes without
//! Dynamic Resource Allocation. On a node, as root:
//!
//! ```sh
//! annotated-channel team-a=9 team-b=16
//! ```
//!
//! Every container of a pod in `team-a` with the annotation `example.com/imex-channel: "9"` then
//! has `/dev/nvidia-caps-imex-channels/channel9`. Any user who may create pods can write
//! annotations, so the command line defines the channels of each namespace; a pod that requests
//! another channel is refused. Channels isolate jobs: give each channel to one job only.
//!
//! The NRI guard of imex-dra and `cdi-gen hook` refuse such pods, because no claim gives them the
//! channel. Exempt their namespaces: `nriGuard.exemptNamespaces`, `--exempt-namespace`.

#![expect(clippy::print_stderr, reason = "a program says what is wrong")]

use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use imex_cdi::{
    ChannelId, NriContainer, NriRelease, OsHost, PROC_DEVICES, Plan, channel_edits,
    read_channel_major,
};
use nri_plugin::api::{Container, PodSandbox};
use nri_plugin::{Context, Creation, Events, Late, Plugin, Refusal, Service};
use tokio::signal::unix::{SignalKind, signal};

const ANNOTATION: &str = "example.com/imex-channel";

pub(crate) struct AnnotatedChannel {
    /// Namespaces and their channels.
    pub(crate) allowed: BTreeSet<(String, ChannelId)>,
    pub(crate) proc_devices: PathBuf,
}

impl Plugin for AnnotatedChannel {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        let Some(value) = pod.annotations.get(ANNOTATION) else {
            return Ok(Creation::default());
        };
        let namespace = &pod.namespace;
        let channel = parse_channel(value)
            .map_err(|error| Refusal::new(format!("annotation {ANNOTATION}: {error}")))?;
        if !self.allowed.contains(&(namespace.clone(), channel)) {
            return Err(Refusal::new(format!(
                "IMEX channel {channel} is not allowed in namespace {namespace} on this node"
            )));
        }
        // Read each time: the major changes when the driver is loaded again.
        let major = read_channel_major(&self.proc_devices).map_err(Refusal::new)?;
        let edits = channel_edits(channel, major);
        let mut target = NriContainer::new(container);
        let plan = Plan::of_edits(&edits, ANNOTATION.as_ref(), &target, &OsHost::new("/"));
        plan.map_err(Refusal::new)?.apply(&mut target);
        // A device node with its number is the same in every release.
        let adjustment = target.into_adjustment(NriRelease::Nri0_3).adjustment;
        Ok(adjustment.into())
    }
}

fn parse_channel(text: &str) -> Result<ChannelId, String> {
    let number = text.parse::<u32>();
    let number = number.map_err(|_| format!("{text:?} is not the number of an IMEX channel"))?;
    ChannelId::new(number).map_err(|error| error.to_string())
}

pub(crate) fn parse_allowed(argument: &str) -> Result<(String, ChannelId), String> {
    let (namespace, channel) = argument
        .split_once('=')
        .filter(|(namespace, _)| !namespace.is_empty())
        .ok_or_else(|| format!("{argument:?} is not NAMESPACE=CHANNEL"))?;
    Ok((namespace.to_owned(), parse_channel(channel)?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("annotated-channel: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args_os().skip(1);
    let allowed = arguments.map(|it| parse_allowed(&it.to_string_lossy()));
    let allowed: Result<BTreeSet<_>, String> = allowed.collect();
    let allowed = allowed?;
    if allowed.is_empty() {
        return Err("usage: annotated-channel NAMESPACE=CHANNEL...".into());
    }
    let plugin = AnnotatedChannel {
        allowed,
        proc_devices: PROC_DEVICES.into(),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    // A late answer refuses the container: without its channel it would fail later, with a worse
    // message.
    let builder = Service::builder(50, "annotated-channel").on_late(Late::Refuse);
    let mut service = builder.start(plugin)?;
    tokio::select! {
        error = service.ended() => return Err(error.into()),
        _ = terminate.recv() => {}
    }
    service.shutdown().await;
    Ok(())
}
