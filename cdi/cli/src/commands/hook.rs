//! `cdi-gen hook`: refuses a container, as a hook of an OCI runtime.
//!
//! ```text
//!  stdin: state ──► bundle's config.json ──► RequestedChannels ──► their owners ──► exit code
//!                                                              records: a pod's container
//!                                                              --allow: any other
//! ```
//!
//! Most containers ask for no channel: for them nothing but the config and `/proc/devices`
//! is read. Those that name CDI devices are looked up in all specs of the host, as the guard
//! does: NVIDIA's runtime has settings of its own for which file wins.

mod container;
mod records;

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use compute_domain_node::{ChannelOwner, asks_for, sentence, unexplained};
use host_doctor::Host;
use imex_cdi::{
    CHANNEL_DRIVER, DefinedNodes, Major, OpenNames, RequestedChannels, requested_channels,
};
use serde::Deserialize;

use self::container::{Container, Pod};
use self::records::Records;
use crate::args::{Channels, CreateRuntime, HookCommand, KubeletRoot};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};

/// Longer than any state: its annotations are those of the config.
const MAX_STATE_LEN: u64 = 16 << 20;

/// What is needed of a container's state, as an OCI runtime writes it to its hooks.
#[derive(Debug, Deserialize)]
struct State {
    /// The bundle's directory.
    bundle: PathBuf,
}

pub(super) fn run(command: HookCommand) -> Result<Outcome, Failure> {
    let HookCommand::CreateRuntime(args) = command;
    let (warn, timeout) = (args.warn, args.timeout);
    let (answer, answered) = mpsc::channel();
    // Ends with the process: reading may block for ever, and must not keep a container.
    thread::spawn(move || {
        // Nobody listens after the timeout.
        let _ = answer.send(check(&args));
    });
    let late = || {
        let seconds = timeout.as_secs();
        let message =
            format!("the check of the container's IMEX channels took longer than {seconds} s");
        let hint = "look for a file system that does not answer, or raise --timeout";
        Err(Failure::new(Outcome::Io, message).hint(hint))
    };
    let checked = answered.recv_timeout(timeout).unwrap_or_else(|_| late());
    if let Err(failure) = &checked
        && warn
    {
        failure.report();
        return Ok(Outcome::Clean);
    }
    checked.map(|()| Outcome::Clean)
}

/// Reads standard input to its end, whatever it is: a runtime that cannot write it all may
/// take that for the hook's end.
fn read_state() -> Result<State, Failure> {
    let unreadable = |error: io::Error| {
        let what = "cannot read the container's state from standard input";
        Failure::caused_by(Outcome::Io, what, &error)
    };
    let read = || {
        let mut stdin = io::stdin().lock();
        let mut bytes = Vec::new();
        let limited = (&mut stdin).take(MAX_STATE_LEN).read_to_end(&mut bytes);
        limited.map_err(unreadable)?;
        if io::copy(&mut stdin, &mut io::sink()).map_err(unreadable)? > 0 {
            let message = "standard input is longer than the state of a container is";
            return Err(Failure::new(Outcome::Io, message));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = "standard input is not the state of a container";
            Failure::caused_by(Outcome::Io, what, &error)
        })
    };
    let hint = "have an OCI runtime run it as a hook of createRuntime";
    read().map_err(|failure: Failure| failure.hint(hint))
}

// req: DOCTOR-11
fn check(args: &CreateRuntime) -> Result<(), Failure> {
    let container = Container::read(&read_state()?.bundle)?;
    let specs = HostSpecs::open(&args.specs)?;
    let pod = container.pod();
    let is_exempt = |pod: &Pod<'_>| args.exempt_namespaces.iter().any(|it| it == pod.namespace);
    if pod.as_ref().is_some_and(is_exempt) {
        return Ok(());
    }
    let (asked, open) = asked(&container, &specs);
    if !asked.is_empty() {
        match pod {
            Some(pod) => check_pod(&asked, pod, &args.kubelet, &specs.host)?,
            None => check_allowed(&asked, args.allow.as_ref())?,
        }
    }
    match open {
        // Whatever the names are, it is allowed.
        Some(_) if pod.is_none() && args.allow == Some(Channels::All) => Ok(()),
        Some(reason) => Err(Failure::new(
            Outcome::Io,
            format!(
                "it cannot be found out which IMEX channels the container asks for: it names CDI \
                 devices, and {reason}"
            ),
        )),
        None => Ok(()),
    }
}

/// What the container asks for, and why it may ask for more.
fn asked(container: &Container, specs: &HostSpecs) -> (RequestedChannels, Option<String>) {
    let host = &specs.host;
    let major = host
        .majors()
        .and_then(|majors| majors.major_of(CHANNEL_DRIVER));
    let major = major.and_then(|major| Major::new(u32::try_from(major).ok()?).ok());
    let view = container.view();
    let names = RefCell::new(OpenNames::default());
    let asked = requested_channels(&view, major, |name| {
        names.borrow_mut().add(name);
        None
    });
    let names = names.into_inner();
    // A device by its numbers alone is a channel only by the major, which a host without
    // the list does not tell.
    let by_major = view.rules.iter().any(|rule| rule.major.is_some());
    if host.majors().is_none() && (by_major || !view.devices.is_empty()) {
        let reason = "the majors of its devices are not known: /proc/devices of this host (below \
                      --root) cannot be read";
        return (asked, Some(reason.to_owned()));
    }
    if names.is_empty() {
        return (asked, None);
    }
    let found = DefinedNodes::read(&specs.registry(), &names);
    let asked = requested_channels(&view, major, |name| found.nodes(name));
    (asked, found.open(&names).map(str::to_owned))
}

fn check_pod(
    asked: &RequestedChannels,
    pod: Pod<'_>,
    kubelet: &KubeletRoot,
    host: &Host,
) -> Result<(), Failure> {
    let records = Records::read(host, kubelet)?;
    let found = unexplained(asked, |channel| records.channel_owner(channel, pod));
    if found.is_empty() {
        return Ok(());
    }
    // What survives of a damaged checkpoint may explain a channel, but not the lack of one.
    records.check_whole()?;
    let message = sentence(&found, asked.every_device);
    Err(Failure::new(Outcome::Findings, message))
}

fn check_allowed(asked: &RequestedChannels, allowed: Option<&Channels>) -> Result<(), Failure> {
    if allowed == Some(&Channels::All) {
        return Ok(());
    }
    let found = unexplained(asked, |channel| match allowed {
        Some(Channels::List(channels)) if channels.contains(&channel) => ChannelOwner::ThisPod,
        _ => ChannelOwner::Unclaimed,
    });
    if found.is_empty() {
        return Ok(());
    }
    // For a container that is of no pod.
    let message = format!(
        "{}, which this host's hook does not allow; start it without, or name the channels in the \
         hook's --allow",
        asks_for(&found),
    );
    Err(Failure::new(Outcome::Findings, message))
}
