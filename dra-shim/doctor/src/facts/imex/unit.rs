//! The systemd service that starts nvidia-imex: systemd.unit(5).

use std::fs;
use std::path::Path;

use crate::host::Host;
use crate::systemd::{is_wanted, unit_paths};

pub(super) const UNIT: &str = "nvidia-imex.service";

/// Prefixes of the program in `ExecStart`, which change how systemd runs it.
const PREFIXES: [char; 5] = ['@', '-', ':', '+', '!'];

/// The systemd unit of a host's nvidia-imex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImexUnit {
    /// Its file, or the file that masks it.
    pub path: String,
    /// Whether systemd starts it.
    pub start: UnitStart,
}

/// Whether systemd starts a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitStart {
    /// With the host: another unit wants it.
    Enabled,
    /// Only on demand.
    Disabled,
    /// Never: its file is empty, or a link to `/dev/null`.
    Masked,
}

// === impl ImexUnit ===

impl ImexUnit {
    /// `None` if the host has no such service.
    pub(super) fn read(host: &Host) -> Option<Self> {
        let paths = unit_paths(UNIT);
        paths.into_iter().find_map(|path| {
            let start = if is_masked(host, &path) {
                UnitStart::Masked
            } else if !host.exists(&path) {
                return None;
            } else if is_wanted(host, UNIT) {
                UnitStart::Enabled
            } else {
                UnitStart::Disabled
            };
            Some(Self { path, start })
        })
    }
}

/// Whether the unit is masked. The link may dangle: a copy of a root need not have `/dev`.
fn is_masked(host: &Host, path: &str) -> bool {
    let at = host.resolve(path);
    let is_null = fs::read_link(&at).is_ok_and(|target| target == Path::new("/dev/null"));
    let is_empty = || {
        let found = host.resolve_target(path).metadata();
        found.is_ok_and(|found| found.is_file() && found.len() == 0)
    };
    is_null || is_empty()
}

/// The command that starts the daemon: that of the unit's last drop-in with a command, else the
/// unit's. Empty if there is none.
pub(super) fn exec_start(host: &Host, unit: &str) -> String {
    let changes = host.drop_ins(unit_paths(&format!("{UNIT}.d")));
    let paths = [unit.to_owned()].into_iter().chain(changes);
    let mut commands = paths.filter_map(|path| last_command(&host.text_if_readable(&path)?));
    commands.next_back().unwrap_or_default()
}

/// The last `ExecStart` of a file, which replaces earlier ones. A backslash at the end of a line
/// continues the line.
fn last_command(text: &str) -> Option<String> {
    let text = text.replace("\\\n", " ");
    let mut pairs = text.lines().rev().filter_map(|line| line.split_once('='));
    let (_, command) = pairs.find(|(key, _)| key.trim() == "ExecStart")?;
    Some(command.trim().trim_start_matches(PREFIXES).to_owned())
}
