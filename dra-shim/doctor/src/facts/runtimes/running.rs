//! Runtimes by their processes: an operating system, a distribution of
//! Kubernetes or a test may keep program and configuration anywhere.

use std::path::Path;

use crate::command_line;
use crate::files::HostFiles;
use crate::processes::{Process, ProcessRoot, process_root, processes};

/// A program that runs on this host.
#[derive(Debug)]
pub(super) struct Running {
    /// Its own name first; none of one that has ended.
    arguments: Vec<String>,
}

/// Those of any of these names. Only processes of this host that root runs; see
/// [`is_roots`].
pub(super) fn find(files: &HostFiles, names: &[&str]) -> Vec<Running> {
    let processes = processes(files).into_iter();
    let wanted = processes.filter(|process| names.contains(&process.name.as_str()));
    let ours = wanted.filter(|process| {
        is_roots(files, process) && matches!(process_root(files, process.pid), ProcessRoot::Host(_))
    });
    ours.map(|process| Running {
        arguments: command_line::arguments(files, process.pid)
            .ok()
            .flatten()
            .unwrap_or_default(),
    })
    .collect()
}

/// Whether root runs it: any user may give a process any name, and what it names is read
/// and asked as root. (The owner of the process's directory may be root all the same.)
fn is_roots(files: &HostFiles, process: &Process) -> bool {
    let status = files.text_if_readable(&format!("/proc/{}/status", process.pid));
    let status = status.unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().all(|user| user == "0"))
}

// === impl Running ===

impl Running {
    /// The configuration that its command line names. None, if the path is one that only
    /// the process itself can follow.
    pub(super) fn config(&self) -> Option<&str> {
        let config = command_line::config_option(&self.arguments)?;
        Path::new(config).is_absolute().then_some(config)
    }

    /// The value of an option, by any of its names.
    pub(super) fn option(&self, names: &[&str]) -> Option<&str> {
        command_line::option(&self.arguments, names)
    }

    /// Whether it has an option without a value.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|it| names.contains(&it.as_str()))
    }
}
