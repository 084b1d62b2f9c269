//! `cdi-gen hook`: an OCI runtime hook that refuses containers with channels they do not own.
//!
//! ```text
//!  stdin: state ──► bundle's config.json ──► RequestedChannels ──► their owners ──► exit code
//!                                                              records: a pod's container
//!                                                              --allow: any other
//! ```
//!
//! Most containers request no channel; for them, only the config and `/proc/devices` are read.
//! Names of CDI devices are looked up in all specs of the host, as in the NRI guard: NVIDIA's
//! runtime has its own settings for which file wins.

mod container;
mod records;

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use compute_domain_node::{ChannelOwner, describe_requests, sentence, unexplained};
use host_doctor::Host;
use imex_cdi::{
    CHANNEL_DRIVER, DefinedNodes, Major, RequestedChannels, UnresolvedNames, requested_channels,
};
use serde::Deserialize;

use self::container::{Container, Pod};
use self::records::Records;
use crate::args::{Channels, CreateRuntime, HookCommand, KubeletRoot};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};

/// Longest container state that is read, in bytes; a state repeats the config's annotations.
const MAX_STATE_LEN: u64 = 16 << 20;

/// The needed part of the container state that an OCI runtime passes to its hooks.
#[derive(Debug, Deserialize)]
struct State {
    /// The bundle's directory.
    bundle: PathBuf,
}

pub(super) fn run(command: HookCommand) -> Result<Outcome, Failure> {
    let HookCommand::CreateRuntime(args) = command;
    let (warn, timeout) = (args.warn, args.timeout);
    let (answer, answered) = mpsc::channel();
    // The thread ends with the process: a read may block forever, and must not hold up the
    // container.
    thread::spawn(move || {
        // After the timeout there is no receiver.
        let _ = answer.send(check(&args));
    });
    let late = || {
        let seconds = timeout.as_secs();
        let message =
            format!("checking the container's IMEX channels took longer than {seconds} s");
        let hint = "check for a hanging file system, or raise --timeout";
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

/// Reads standard input to its end: a runtime that cannot write all of it may assume that the hook
/// has exited.
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
            let message = "standard input is too long for a container state";
            return Err(Failure::new(Outcome::Io, message));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = "standard input is not a container state";
            Failure::caused_by(Outcome::Io, what, &error)
        })
    };
    let hint = "configure `cdi-gen hook createRuntime` as a createRuntime hook of an OCI runtime";
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
    let (requested, open) = requested(&container, &specs);
    if !requested.is_empty() {
        match pod {
            Some(pod) => check_pod(&requested, pod, &args.kubelet, &specs.host)?,
            None => check_allowed(&requested, args.allow.as_ref())?,
        }
    }
    match open {
        // Every channel is allowed, whatever the names resolve to.
        Some(_) if pod.is_none() && args.allow == Some(Channels::All) => Ok(()),
        Some(reason) => Err(Failure::new(
            Outcome::Io,
            format!(
                "cannot determine which IMEX channels the container requests: the container \
                 names CDI devices, and {reason}"
            ),
        )),
        None => Ok(()),
    }
}

/// Returns the requested channels, and why there may be more.
fn requested(container: &Container, specs: &HostSpecs) -> (RequestedChannels, Option<String>) {
    let host = &specs.host;
    let major = host
        .majors()
        .and_then(|majors| majors.major_of(CHANNEL_DRIVER));
    let major = major.and_then(|major| Major::new(u32::try_from(major).ok()?).ok());
    let view = container.view();
    let names = RefCell::new(UnresolvedNames::default());
    let requested = requested_channels(&view, major, |name| {
        names.borrow_mut().add(name);
        None
    });
    let names = names.into_inner();
    // A device given by numbers is recognized only by its major, which /proc/devices lists.
    let by_major = view.rules.iter().any(|rule| rule.major.is_some());
    if host.majors().is_none() && (by_major || !view.devices.is_empty()) {
        let reason = "device majors are unknown: /proc/devices of this host (below --root) cannot \
                      be read";
        return (requested, Some(reason.to_owned()));
    }
    if names.is_empty() {
        return (requested, None);
    }
    let found = DefinedNodes::read(&specs.registry(), &names);
    let requested = requested_channels(&view, major, |name| found.nodes(name));
    (requested, found.open(&names).map(str::to_owned))
}

fn check_pod(
    requested: &RequestedChannels,
    pod: Pod<'_>,
    kubelet: &KubeletRoot,
    host: &Host,
) -> Result<(), Failure> {
    let records = Records::read(host, kubelet)?;
    let found = unexplained(requested, |channel| records.channel_owner(channel, pod));
    if found.is_empty() {
        return Ok(());
    }
    // Records from a damaged checkpoint can show an owner, but not that there is none.
    records.check_whole()?;
    let message = sentence(&found, requested.every_device);
    Err(Failure::new(Outcome::Findings, message))
}

fn check_allowed(requested: &RequestedChannels, allowed: Option<&Channels>) -> Result<(), Failure> {
    if allowed == Some(&Channels::All) {
        return Ok(());
    }
    let found = unexplained(requested, |channel| match allowed {
        Some(Channels::List(channels)) if channels.contains(&channel) => ChannelOwner::ThisPod,
        _ => ChannelOwner::Unclaimed,
    });
    if found.is_empty() {
        return Ok(());
    }
    // The container belongs to no pod.
    let message = format!(
        "{}, which this host's hook does not allow; start the container without IMEX channels, \
         or list the channels in the hook's --allow",
        describe_requests(&found),
    );
    Err(Failure::new(Outcome::Findings, message))
}
