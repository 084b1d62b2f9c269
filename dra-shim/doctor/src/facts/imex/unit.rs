//! The service of a host's systemd that starts nvidia-imex.

use std::collections::BTreeMap;

use crate::files::HostFiles;

pub(super) const UNIT: &str = "nvidia-imex.service";

/// systemd takes the first that exists.
const FILES: [&str; 3] = [
    "/etc/systemd/system/nvidia-imex.service",
    "/usr/lib/systemd/system/nvidia-imex.service",
    "/lib/systemd/system/nvidia-imex.service",
];

/// The directories of its drop-ins; a file of a later directory replaces one of
/// the same name in an earlier.
const CHANGES: [&str; 4] = [
    "/lib/systemd/system/nvidia-imex.service.d",
    "/usr/lib/systemd/system/nvidia-imex.service.d",
    "/run/systemd/system/nvidia-imex.service.d",
    "/etc/systemd/system/nvidia-imex.service.d",
];

/// Prefixes of the program in `ExecStart`, which change how it is run.
const PREFIXES: [char; 5] = ['@', '-', ':', '+', '!'];

/// Its file; `None` if the host has no such service.
pub(super) fn file(files: &HostFiles) -> Option<&'static str> {
    files.first_existing(&FILES)
}

/// The command that starts the daemon: that of the unit, or of what changes it
/// last. Empty if none is there.
pub(super) fn exec_start(files: &HostFiles, unit: &str) -> String {
    let mut changes = BTreeMap::new();
    for dir in CHANGES {
        let names = files.list(dir).into_iter();
        for name in names.filter(|name| name.strip_suffix(".conf").is_some()) {
            let path = format!("{dir}/{name}");
            changes.insert(name, path);
        }
    }
    let paths = [unit.to_owned()].into_iter().chain(changes.into_values());
    let mut commands = paths.filter_map(|path| last_command(&files.text_if_readable(&path)?));
    commands.next_back().unwrap_or_default()
}

/// A unit that sets `ExecStart` again replaces the command. Lines that end in a
/// backslash go on in the next.
fn last_command(text: &str) -> Option<String> {
    let text = text.replace("\\\n", " ");
    let mut pairs = text.lines().rev().filter_map(|line| line.split_once('='));
    let (_, command) = pairs.find(|(key, _)| key.trim() == "ExecStart")?;
    Some(command.trim().trim_start_matches(PREFIXES).to_owned())
}
