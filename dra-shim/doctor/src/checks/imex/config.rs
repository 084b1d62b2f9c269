//! Which configuration an nvidia-imex has, and the nodes that it names.

use std::io;
use std::path::Path;

use super::daemons::{Daemon, PROGRAM};
use super::unit::{self, UNIT};
use crate::command_line;
use crate::files::HostFiles;
use crate::finding::Finding;

/// What a daemon reads that is told nothing else.
const CONFIG: &str = "/etc/nvidia-imex/config.cfg";
const NODES: &str = "/etc/nvidia-imex/nodes_config.cfg";

const NODES_KEY: &str = "IMEX_NODE_CONFIG_FILE";

/// A daemon's configuration.
#[derive(Debug)]
pub(super) struct Config {
    /// The process whose file it is; `None` for one of the host's.
    seen_by: Option<u32>,
    /// Who says its path; `None` if nobody does, and it is the usual one.
    named_by: Option<String>,
    path: String,
}

// === impl Config ===

impl Config {
    /// That of a daemon that runs; an error is why it cannot be known.
    pub(super) fn of_daemon(daemon: &Daemon) -> Result<Self, Finding> {
        let pid = daemon.pid;
        let words = daemon.words.as_ref().map_err(|error| {
            unknown(
                format!("/proc/{pid}/cmdline"),
                &format!("what process {pid} was started with cannot be read: {error}"),
            )
        })?;
        let seen_by = (!daemon.sees_host).then_some(pid);
        Ok(Self::named(words, format!("process {pid}"), seen_by))
    }

    /// That which a unit's daemon would have if it were started now; an error
    /// is why it cannot be known.
    pub(super) fn of_unit(files: &HostFiles, unit: &str) -> Result<Self, Finding> {
        let command = unit::exec_start(files, unit);
        let words = command.split_whitespace();
        let words: Vec<String> = words
            .map(|it| it.trim_matches(['"', '\'']).to_owned())
            .collect();
        let program = words.first().map(Path::new).and_then(Path::file_name);
        if program.is_some_and(|name| name != PROGRAM) {
            return Err(unknown(
                unit.to_owned(),
                &format!("its ExecStart is another program than {PROGRAM}: {command}"),
            )
            .quoting());
        }
        Ok(Self::named(&words, format!("ExecStart of {UNIT}"), None))
    }

    fn named(words: &[String], by: String, seen_by: Option<u32>) -> Self {
        match command_line::config_option(words) {
            Some(path) => Self {
                seen_by,
                named_by: Some(by),
                path: path.to_owned(),
            },
            None => Self {
                seen_by,
                named_by: None,
                path: CONFIG.to_owned(),
            },
        }
    }

    /// What is wrong with the list of the domain's nodes, in the files that the
    /// daemon sees; `None` if they may not be looked at.
    pub(super) fn of_nodes(&self, files: Option<&HostFiles>) -> Option<Finding> {
        let Some(files) = files else {
            return Some(self.unreadable(&self.path, "it is a container's"));
        };
        let config = match text(files, &self.path) {
            Ok(Some(text)) => text,
            Ok(None) if self.named_by.is_none() => String::new(),
            Ok(None) => return Some(self.unreadable(&self.path, "there is no such file")),
            Err(error) => return Some(self.unreadable(&self.path, &error.to_string())),
        };
        let path = nodes_file(&config).unwrap_or(NODES);
        let what = match text(files, path) {
            Err(error) => return Some(self.unreadable(path, &error.to_string())),
            Ok(Some(text)) if text.lines().map(str::trim).any(is_node) => return None,
            Ok(Some(_)) => "it lists no node",
            Ok(None) => "there is no such file",
        };
        Some(Finding::error(
            "host-imex-no-nodes",
            path,
            format!("{what}: the daemon has no domain ({})", self.shown()),
            format!(
                "write the addresses of the domain's nodes into {path}, one for each line, and restart nvidia-imex"
            ),
        ))
    }

    fn unreadable(&self, path: &str, why: &str) -> Finding {
        unknown(
            path.to_owned(),
            &format!("it cannot be read: {why} ({})", self.shown()),
        )
    }

    /// Which file is meant, for evidence.
    fn shown(&self) -> String {
        let Self {
            seen_by,
            named_by,
            path,
        } = self;
        let named = match named_by {
            Some(by) => format!("configuration {path}, from {by}"),
            None => format!("configuration {path}, the usual one"),
        };
        match seen_by {
            Some(pid) => format!("{named}; files as process {pid} sees them"),
            None => named,
        }
    }
}

fn unknown(subject: String, evidence: &str) -> Finding {
    Finding::warning(
        "host-imex-config-unreadable",
        subject,
        format!("{evidence}; which nodes nvidia-imex has is not known"),
        "run cdi-gen doctor as root on the host; if the file is not there, restore it, or start nvidia-imex with the right -c",
    )
}

/// A file by the name that the daemon has for it; `None` if there is none.
fn text(files: &HostFiles, path: &str) -> io::Result<Option<String>> {
    if !path.starts_with('/') || path.contains(['$', '%']) {
        let who = "only who starts the daemon knows which file that is";
        return Err(io::Error::other(who));
    }
    files.text(path)
}

fn nodes_file(config: &str) -> Option<&str> {
    let mut pairs = config.lines().filter_map(|line| line.split_once('='));
    let (_, path) = pairs.find(|(key, _)| key.trim() == NODES_KEY)?;
    Some(path.trim()).filter(|path| !path.is_empty())
}

fn is_node(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_a_node_unless_it_is_empty_or_a_comment() {
        assert!(is_node("10.0.0.1"));
        assert!(!is_node(""));
        assert!(!is_node("# 10.0.0.1"));
        assert_eq!(nodes_file("A=1\nIMEX_NODE_CONFIG_FILE = /n\n"), Some("/n"));
        assert_eq!(nodes_file("#IMEX_NODE_CONFIG_FILE=/n\n"), None);
        assert_eq!(nodes_file("IMEX_NODE_CONFIG_FILE=\n"), None);
    }
}
