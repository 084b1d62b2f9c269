//! Runtimes by their processes: an operating system, a distribution of
//! Kubernetes or a test may keep program and configuration anywhere.

use std::fs;
use std::path::Path;

use crate::command_line;
use crate::files::HostFiles;
use crate::processes::{Process, ProcessRoot, process_root, processes};

/// A runtime that runs on this host.
#[derive(Debug)]
pub(super) struct Running {
    /// Where its program is, if that may be asked for its version.
    pub(super) program: Option<String>,
    /// The configuration that its command line names.
    pub(super) config: Option<String>,
    /// Where it looks up programs, `PATH` of its environment.
    pub(super) path: Option<String>,
}

/// Only processes of this host that root runs; see [`is_roots`].
pub(super) fn find(files: &HostFiles, name: &str) -> Vec<Running> {
    let processes = processes(files).into_iter();
    let named = processes.filter(|process| process.name == name);
    let ours = named.filter(|process| {
        is_roots(files, process) && matches!(process_root(files, process.pid), ProcessRoot::Host(_))
    });
    ours.map(|process| Running {
        program: program(files, &process),
        config: config(files, &process),
        path: path(files, &process),
    })
    .collect()
}

/// Whether root runs it: any user may give a process any name, and its program
/// is run again, as root, for its version. (The owner of the process's directory may be root all the same.)
fn is_roots(files: &HostFiles, process: &Process) -> bool {
    let status = files.text_if_readable(&format!("/proc/{}/status", process.pid));
    let status = status.unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().all(|user| user == "0"))
}

/// Not that of a process that is one of many programs in one, which has a
/// version of its own (k3s).
fn program(files: &HostFiles, process: &Process) -> Option<String> {
    let link = files.resolve(&format!("/proc/{}/exe", process.pid));
    let path = fs::read_link(&link).ok()?;
    let is_own = path.file_name()? == process.name.as_str();
    let path = path.to_str()?.to_owned();
    // One that was replaced since is another version, or gone.
    let same = files.is_same(&path, &link);
    (is_own && same).then_some(path)
}

/// None, if the path is one that only the process itself can follow.
fn config(files: &HostFiles, process: &Process) -> Option<String> {
    let words = command_line::arguments(files, process.pid).ok()??;
    let config = command_line::config_option(&words)?;
    Path::new(config).is_absolute().then(|| config.to_owned())
}

fn path(files: &HostFiles, process: &Process) -> Option<String> {
    let environment = files.text_if_readable(&format!("/proc/{}/environ", process.pid))?;
    let mut variables = environment.split('\0');
    let path = variables.find_map(|variable| variable.strip_prefix("PATH="))?;
    Some(path.to_owned())
}
