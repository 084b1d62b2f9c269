//! `cdi-gen hook`: refuses a container, as a hook of an OCI runtime.
//!
//! ```text
//!  stdin: state ──► bundle's config.json ──► AskedChannels ──► whose they are ──► exit code
//!                                                              records: a pod's container
//!                                                              --allow: any other
//! ```
//!
//! Most containers ask for no channel: for them nothing but the config and `/proc/devices`
//! is read. Those that name CDI devices are looked up in all specs of the host, as the guard
//! does: NVIDIA's runtime has settings of its own for which file wins.

mod container;
mod error;
mod records;
mod state;

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;

use compute_domain_node::{Unexplained, Whose, asks_for, sentence, unexplained};
use host_doctor::Host;
use imex_cdi::{
    AskedChannels, CHANNEL_DRIVER, ChannelId, DefinedNodes, Major, OpenNames, asked_channels,
};

use self::container::{Container, Pod};
use self::error::HookError;
use self::records::Records;
use crate::args::{Channels, CreateRuntime, HookCommand, KubeletRoot};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};

pub(super) fn run(command: HookCommand) -> Result<Outcome, Failure> {
    let HookCommand::CreateRuntime(args) = command;
    let (warn, timeout) = (args.warn, args.timeout);
    let (answer, answered) = mpsc::channel();
    // Ends with the process: reading may block for ever, and must not keep a container.
    thread::spawn(move || {
        // Nobody listens after the timeout.
        let _ = answer.send(check(&args));
    });
    let checked = answered
        .recv_timeout(timeout)
        .unwrap_or(Err(HookError::Late(timeout)));
    match checked {
        Ok(()) => Ok(Outcome::Clean),
        Err(error) if warn => {
            Failure::from(error).report();
            Ok(Outcome::Clean)
        }
        Err(error) => Err(error.into()),
    }
}

// req: DOCTOR-11
fn check(args: &CreateRuntime) -> Result<(), HookError> {
    let bundle = state::read()?.bundle;
    let container = Container::read(&bundle)?;
    let specs = HostSpecs::open(&args.specs).map_err(HookError::Host)?;
    let host = specs.host();
    let pod = container.pod();
    let is_exempt = |pod: &Pod<'_>| args.exempt_namespaces.iter().any(|it| it == pod.namespace);
    if pod.as_ref().is_some_and(is_exempt) {
        return Ok(());
    }
    let (asked, open) = asked(&container, &specs, &host);
    if !asked.is_empty() {
        match pod {
            Some(pod) => check_pod(&asked, pod, &args.kubelet, &host)?,
            None => check_allowed(&asked, args.allow.as_ref())?,
        }
    }
    match open {
        // Whatever the names are, it is allowed.
        Some(_) if pod.is_none() && args.allow == Some(Channels::All) => Ok(()),
        Some(reason) => Err(HookError::Unknown(reason)),
        None => Ok(()),
    }
}

/// What the container asks for, and why it may ask for more.
fn asked(container: &Container, specs: &HostSpecs, host: &Host) -> (AskedChannels, Option<String>) {
    let major = host
        .majors()
        .and_then(|majors| majors.major_of(CHANNEL_DRIVER));
    let major = major.and_then(|major| Major::new(u32::try_from(major).ok()?).ok());
    let view = container.view();
    let names = RefCell::new(OpenNames::default());
    let asked = asked_channels(&view, major, |name| {
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
    let asked = asked_channels(&view, major, |name| found.nodes(name));
    (asked, found.open(&names).map(str::to_owned))
}

fn check_pod(
    asked: &AskedChannels,
    pod: Pod<'_>,
    kubelet: &KubeletRoot,
    host: &Host,
) -> Result<(), HookError> {
    let records = Records::read(host.files(), kubelet)?;
    let found = unexplained(asked, |channel| records.whose(channel, pod));
    if found.is_empty() {
        return Ok(());
    }
    // What survives of a damaged checkpoint may explain a channel, but not the lack of one.
    records.check_whole()?;
    Err(HookError::Refused(sentence(&found, asked.every_device)))
}

fn check_allowed(asked: &AskedChannels, allowed: Option<&Channels>) -> Result<(), HookError> {
    if allowed == Some(&Channels::All) {
        return Ok(());
    }
    let is_allowed = |channel: ChannelId| match allowed {
        Some(Channels::List(channels)) => channels.contains(&channel),
        _ => false,
    };
    let found = unexplained(asked, |channel| {
        if is_allowed(channel) {
            Whose::ThisPods
        } else {
            Whose::Nobodys
        }
    });
    if found.is_empty() {
        return Ok(());
    }
    Err(HookError::Refused(not_allowed(&found)))
}

/// For a container that is of no pod.
fn not_allowed(found: &[Unexplained<'_>]) -> String {
    format!(
        "{}, which this host's hook does not allow; start it without, or name the channels in the \
         hook's --allow",
        asks_for(found),
    )
}
